package bind

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/status"
	"xla_go/gosrc/tensor"
)

// viewRequest describes a tensor: a view of a storage that the runtime has seen.
type viewRequest struct {
	Storage int64   `json:"storage"`
	Element string  `json:"element"`
	Sizes   []int64 `json:"sizes"`
	Strides []int64 `json:"strides"` // in elements
	Offset  int64   `json:"offset"`
}

func viewOf(function, request string) (ops.View, error) {
	var r viewRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return ops.View{}, status.Errorf(status.InvalidArgument, "%s(): expected a JSON object, got %v", function, err)
	}
	if dispatch.Space() == nil {
		return ops.View{}, status.Errorf(status.FailedPrecondition, "%s(): expected a tensor on device xla, there is none yet", function)
	}
	v, err := dispatch.ViewOf(r.Storage, r.Element, r.Sizes, r.Strides, r.Offset)
	return v, status.Annotate(err, "%s()", function)
}

// UsePartitions makes xla:0 stand for all devices: programs are partitioned over them from now on. InitializeClient comes first.
// BLOCKING until queued steps have ended.
func UsePartitions() (ok bool, err error) {
	defer guard(&err)
	if err := startTensors(); err != nil {
		return false, err
	}
	err = dispatch.UsePartitions()
	return err == nil, err
}

// IsPartitioned says whether programs are partitioned over all devices; false before the first tensor.
func IsPartitioned() bool {
	space := dispatch.Space()
	return space != nil && space.Core.Partitioned()
}

// ShardingsWaitBegin gives a token to wait until no partitioned program is with the compiler whose results somebody holds: the
// calls below then need not wait for it. Not blocking.
func ShardingsWaitBegin() (token int64, err error) {
	defer guard(&err)
	if space := dispatch.Space(); space != nil && space.Core.TryLockResolved(0) {
		space.Core.Mu.Unlock()
		w := newWait() // over before it begins, as it mostly is: nobody else need run for it
		w.finish(nil)
		return waits.Add(w), nil
	}
	return waitForCore(func(core *executor.Core) {
		core.LockResolved()
		core.Mu.Unlock()
	}), nil
}

// MarkSharding lays a tensor (viewRequest as JSON) over the devices by an OpSharding in base64; see tensor.Space for what each
// of how does: "mark", "replace", "value" or "clear", which takes no sharding. open, for "value", names the dimensions that are
// left to the partitioner, ascending, with commas between them. BLOCKING where a program is being compiled.
func MarkSharding(view, sharding, how, open string) (ok bool, err error) {
	defer guard(&err)
	v, err := viewOf("MarkSharding", view)
	if err != nil {
		return false, err
	}
	serialized, err := base64.StdEncoding.DecodeString(sharding)
	if err != nil {
		return false, status.Errorf(status.InvalidArgument, "MarkSharding(): expected an OpSharding in base64, got %v", err)
	}
	parsed, err := hlo.ParseSharding(serialized)
	if err != nil {
		return false, err
	}
	dimensions, err := integers("MarkSharding", "open", open)
	if err != nil {
		return false, err
	}
	err = dispatch.Annotate(func(s *tensor.Space) error {
		switch how {
		case "mark":
			return s.MarkSharding(&v, parsed)
		case "replace":
			return s.ReplaceSharding(&v, parsed)
		case "value":
			return s.AnnotateValue(&v, parsed, dimensions)
		case "clear":
			return s.ClearSharding(&v)
		}
		return status.Errorf(status.InvalidArgument, "MarkSharding(): expected mark, replace, value or clear, got %q", how)
	})
	return err == nil, err
}

// ValueWaitBegin gives a token to wait until the value that a tensor (viewRequest as JSON) has now is on its devices; the wait's
// error is that of its transfer, or of the step that makes it. What a program has yet to make is not waited for. Not blocking.
func ValueWaitBegin(view string) (token int64, err error) {
	defer guard(&err)
	v, err := viewOf("ValueWaitBegin", view)
	if err != nil {
		return 0, err
	}
	value := dispatch.WaitForValue(&v)
	return waitFor(func() error {
		if value == nil {
			return nil
		}
		defer value.Close()
		for {
			if done, err := value.Poll(time.Hour); done || err != nil {
				return err
			}
		}
	}), nil
}

// TensorSharding describes how a tensor lies over the devices as a JSON object: text, as HLO writes it, "" where nobody divides
// it; value, the same for what the tensor holds now, which may be "{replicated}", "" where that is not known; op_sharding, in base64; tile, the dimensions of each device's memory, padding included. See tensor.Space. BLOCKING where
// a program is being compiled.
func TensorSharding(view string) (text string, err error) {
	defer guard(&err)
	v, err := viewOf("TensorSharding", view)
	if err != nil {
		return "", err
	}
	described := map[string]any{"text": "", "value": ""}
	if known := dispatch.ValueShardingOf(&v); known != nil {
		described["value"] = known.String()
	}
	sharding := dispatch.ShardingOf(&v)
	if sharding == nil {
		sharding = &hlo.Sharding{Kind: hlo.Replicated}
	} else {
		described["text"] = sharding.String()
	}
	tile, err := sharding.TileDims(v.Sizes)
	if err != nil {
		return "", err
	}
	described["op_sharding"], described["tile"] = base64.StdEncoding.EncodeToString(sharding.Proto()), notNil(tile)
	return encode(described)
}

// WholeDimensions gives the dimensions of an array as a JSON list of which each device has a tile of those dimensions (numbers
// between commas), without padding. sharding is an OpSharding in base64.
func WholeDimensions(sharding, tile string) (text string, err error) {
	defer guard(&err)
	serialized, err := base64.StdEncoding.DecodeString(sharding)
	if err != nil {
		return "", status.Errorf(status.InvalidArgument, "WholeDimensions(): expected an OpSharding in base64, got %v", err)
	}
	s, err := hlo.ParseSharding(serialized)
	if err != nil {
		return "", err
	}
	dims, err := integers("WholeDimensions", "tile", tile)
	if err != nil {
		return "", err
	}
	if s.Kind == hlo.Tiled {
		if len(s.Tiles) < len(dims) {
			return "", status.Errorf(status.InvalidArgument, "WholeDimensions(): expected shards of %d dimensions, got %d", len(s.Tiles), len(dims))
		}
		for i := range dims {
			dims[i] *= s.Tiles[i]
		}
	}
	return encode(notNil(dims))
}

// TensorTiles describes which part of a tensor each device has as a JSON object: whole, false where the tensor is a view of a
// part of its storage, or of all of it in another shape; divided, whether no device has all of the storage; tiles, a list
// of shardDescription without handles, one for each local device in their order. BLOCKING where a program is being compiled.
func TensorTiles(view string) (text string, err error) {
	defer guard(&err)
	v, err := viewOf("TensorTiles", view)
	if err != nil {
		return "", err
	}
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	lies := dispatch.LayoutOf(&v)
	if lies.Manual {
		return "", status.Errorf(status.InvalidArgument, "TensorTiles(): expected parts of one tensor, got a tensor of which each device has a value of its own: leave the manual part with disable_manual_sharding() first")
	}
	described := map[string]any{"whole": lies.Whole, "divided": lies.Divided}
	sharding := lies.Sharding
	if sharding == nil {
		sharding = &hlo.Sharding{Kind: hlo.Replicated}
	}
	memory, err := sharding.TileDims(v.Sizes)
	if err != nil {
		return "", err
	}
	devices := c.GetLocalDevices()
	list := make([]shardDescription, len(devices))
	for i, device := range devices {
		if list[i], err = describeTile(c, device, sharding, v.Sizes); err != nil {
			return "", err
		}
		list[i].Memory = notNil(memory)
	}
	described["tiles"] = list
	return encode(described)
}

// TensorShardsBegin gives the token of a read of a tensor's shards: wait as for a read, then TensorShards, or cancel the read.
// BLOCKING where a program is being compiled.
func TensorShardsBegin(view string) (token int64, err error) {
	defer guard(&err)
	v, err := viewOf("TensorShardsBegin", view)
	if err != nil {
		return 0, err
	}
	return dispatch.ShardsBegin(&v)
}

// shardDescription says what one device has of a tensor.
type shardDescription struct {
	Handle  int64   `json:"handle"` // of data, the caller's to close
	Device  string  `json:"device"`
	Memory  []int64 `json:"memory"` // dimensions, padding included
	Offset  []int64 `json:"offset"` // in the tensor
	Size    []int64 `json:"size"`   // without padding
	Replica int64   `json:"replica"`
}

// TensorShards gives the shards of a tensor whose read is over as a JSON list of shardDescription, one for each local device in
// their order; a value on one device is one shard.
func TensorShards(token int64) (text string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	shards, sharding, dims, err := dispatch.ShardsFinish(token)
	if err != nil {
		return "", err
	}
	list := make([]shardDescription, len(shards))
	for i, shard := range shards {
		if list[i], err = describeTile(c, shard.Device(), sharding, dims); err != nil {
			for _, s := range shards {
				s.Close()
			}
			return "", err
		}
		list[i].Memory = notNil(shard.Shape().Dims)
	}
	for i, shard := range shards {
		list[i].Handle = dispatch.DataHandles.Add(shard)
	}
	return encode(list)
}

// describeTile gives what a device has of a tensor of those dimensions, but for the memory.
func describeTile(c client.Client, device string, sharding *hlo.Sharding, dims []int64) (shardDescription, error) {
	ordinal, err := c.DeviceOrdinal(device)
	if err != nil {
		return shardDescription{}, err
	}
	tile, err := sharding.TileOf(int64(ordinal), dims)
	if err != nil {
		return shardDescription{}, err
	}
	return shardDescription{Device: device, Offset: notNil(tile.Offset), Size: notNil(tile.Size), Replica: tile.Replica}, nil
}

// notNil gives a list that JSON writes as one.
func notNil(list []int64) []int64 {
	if list == nil {
		return []int64{}
	}
	return list
}
