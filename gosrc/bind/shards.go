package bind

import (
	"encoding/json"
	"strconv"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/status"
)

// shardedRequest describes sharded data that is made of parts.
type shardedRequest struct {
	Element    string  `json:"element"`
	Dimensions []int64 `json:"dimensions"`
	Sharding   *string `json:"sharding"` // an OpSharding in base64
	// Shards are handles of data, one for each local device.
	Shards []int64 `json:"shards"`
}

// dataOf looks up data by handles with commas between them.
func dataOf(function, handles string) ([]client.Data, error) {
	numbers, err := integers(function, "handles", handles)
	if err != nil {
		return nil, err
	}
	return dataOfNumbers(numbers)
}

func dataOfNumbers(numbers []int64) ([]client.Data, error) {
	data := make([]client.Data, len(numbers))
	for i, n := range numbers {
		var err error
		if data[i], err = dispatch.DataHandles.Get(n); err != nil {
			return nil, status.Annotate(err, "data %d", i)
		}
	}
	return data, nil
}

// addAll gives data handles and joins them with commas.
func addAll(data []client.Data) string {
	texts := make([]string, len(data))
	for i, d := range data {
		texts[i] = strconv.FormatInt(dispatch.DataHandles.Add(d), 10)
	}
	return strings.Join(texts, ",")
}

// Shards gives the shards of sharded data as handles with commas between them, one for each device in
// the order of local devices, each another holder of the same memory. Data that is not sharded has none.
func Shards(handle int64) (handles string, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return "", err
	}
	if data.Sharding() == nil {
		return "", nil // GetDataShards would give the data itself, which has a handle
	}
	shards, err := c.GetDataShards(data)
	if err != nil {
		return "", err
	}
	return addAll(shards), nil
}

// WrapShards joins data, one for each local device in their order, into one sharded data. request is
// a JSON object (shardedRequest). The shards stay open; memory is shared.
func WrapShards(request string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	var r shardedRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return 0, status.Errorf(status.InvalidArgument, "WrapShards(): expected a JSON object, got %v", err)
	}
	s, err := shapeOf("WrapShards", r.Element, r.Dimensions)
	if err != nil {
		return 0, err
	}
	sharding, err := decodeSharding("WrapShards", r.Sharding)
	if err != nil {
		return 0, err
	}
	shards, err := dataOfNumbers(r.Shards)
	if err != nil {
		return 0, status.Annotate(err, "WrapShards()")
	}
	data, err := c.WrapDataShards(shards, "SPMD:0", s, sharding)
	if err != nil {
		return 0, err
	}
	return dispatch.DataHandles.Add(data), nil
}

// Reshard gives data laid out by another sharding (an OpSharding in base64); the same handle where the
// data lies so already. Not blocking, except for a compile at the first use of a pair of shardings.
func Reshard(handle int64, sharding string) (resharded int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return 0, err
	}
	wanted, err := decodeSharding("Reshard", &sharding)
	if err != nil {
		return 0, err
	}
	results, err := c.ReshardData([]client.Data{data}, []*client.Sharding{wanted})
	if err != nil {
		return 0, err
	}
	if results[0] == data {
		return handle, nil
	}
	return dispatch.DataHandles.Add(results[0]), nil
}
