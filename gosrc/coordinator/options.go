package coordinator

import (
	"crypto/rand"
	"net"
	"strconv"
	"time"

	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

// TokenVariable names the environment variable that the launcher of a job sets to the same secret
// text for all its processes.
const TokenVariable = "XLA_GO_COORDINATOR_TOKEN"

// What holds where Options leave a value out.
const (
	DefaultPort             = "8547"
	DefaultHeartbeatTimeout = 100 * time.Second
	DefaultConnectTimeout   = 5 * time.Minute
	DefaultShutdownTimeout  = 5 * time.Minute
)

// heartbeatsPerTimeout is how many heartbeats in a row may be missed. One interval is also how long
// a broken connection may stay broken.
const heartbeatsPerTimeout = 10

const shortestToken = 16

// Options say which process this is and where the coordinator is. Zero durations mean the defaults.
type Options struct {
	// Rank is this process's number, from 0 to WorldSize-1. Rank 0 serves the coordinator.
	Rank, WorldSize int
	// Address is the host name or IP address that rank 0 listens on (on no other) and that the others
	// connect to; Port is a number in text. Port "0" lets rank 0 take a free one.
	Address, Port string
	// Token is the job's secret: 16 or more printable ASCII characters, equal in all processes. It is not
	// encrypted on its way, so the network between the processes has to be a private one.
	// Rank 0 makes one where it is empty (see Token); the others must have it.
	Token string
	// HeartbeatTimeout is how long a rank may be silent before it is taken for dead. That of rank 0 holds for all.
	HeartbeatTimeout time.Duration
	// ConnectTimeout is how long Start waits for rank 0.
	ConnectTimeout time.Duration
	// ShutdownTimeout is how long Close of rank 0 waits for the others to close theirs.
	ShutdownTimeout time.Duration
}

// FromEnvironment reads what torchrun and torch_xla's launchers set: RANK and WORLD_SIZE (or the
// PJRT_LOCAL_PROCESS_ and LOCAL_ forms), MASTER_ADDR, XLA_COORDINATOR_PORT, the token, and the limits
// DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC and DIST_SERVICE_SHUTDOWN_TIMEOUT_IN_MIN.
func FromEnvironment() (Options, error) { return FromVariables(env.Lookup) }

// FromVariables is FromEnvironment with the variables that lookup knows.
func FromVariables(lookup func(name string) (string, bool)) (Options, error) {
	text := func(name, fallback string) string {
		if value, found := lookup(name); found && value != "" {
			return value
		}
		return fallback
	}
	o := Options{
		Address:   text("MASTER_ADDR", "localhost"),
		Port:      text("XLA_COORDINATOR_PORT", DefaultPort),
		Token:     text(TokenVariable, ""),
		WorldSize: 1,
	}
	var seconds, minutes int
	for _, number := range []struct {
		value *int
		names []string
	}{
		{&o.Rank, []string{"RANK", "PJRT_LOCAL_PROCESS_RANK", "LOCAL_RANK"}},
		{&o.WorldSize, []string{"WORLD_SIZE", "PJRT_LOCAL_PROCESS_COUNT", "LOCAL_WORLD_SIZE"}},
		{&seconds, []string{"DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC"}},
		{&minutes, []string{"DIST_SERVICE_SHUTDOWN_TIMEOUT_IN_MIN"}},
	} {
		for _, name := range number.names {
			value := text(name, "")
			if value == "" {
				continue
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return Options{}, status.Errorf(status.InvalidArgument, "%s: expected a number, got %q", name, value)
			}
			*number.value = n
			break
		}
	}
	o.HeartbeatTimeout, o.ShutdownTimeout = time.Duration(seconds)*time.Second, time.Duration(minutes)*time.Minute
	return o, nil
}

// NewToken makes a token for a new job: random text of 26 characters.
func NewToken() string { return rand.Text() }

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.WorldSize < 1 {
		return o, status.Errorf(status.InvalidArgument, "expected a world size of at least 1, got %d", o.WorldSize)
	}
	if o.Rank < 0 || o.Rank >= o.WorldSize {
		return o, status.Errorf(status.InvalidArgument, "expected a rank from 0 to %d, got %d", o.WorldSize-1, o.Rank)
	}
	if o.Address == "" {
		return o, status.Errorf(status.InvalidArgument, "expected the address of rank 0, got an empty text: set MASTER_ADDR")
	}
	if o.Port == "" {
		o.Port = DefaultPort
	}
	if n, err := strconv.Atoi(o.Port); err != nil || n < 0 || n > 65535 || n == 0 && o.Rank != 0 {
		return o, status.Errorf(status.InvalidArgument, "expected a port from 1 to 65535, got %q: set XLA_COORDINATOR_PORT", o.Port)
	}
	if o.Token == "" {
		if o.Rank != 0 {
			return o, status.Errorf(status.FailedPrecondition,
				"rank %d has no token of the job: let the launcher set %s to the same secret text for all processes", o.Rank, TokenVariable)
		}
		o.Token = NewToken()
	}
	if err := checkToken(o.Token); err != nil {
		return o, err
	}
	for _, limit := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"heartbeat timeout", &o.HeartbeatTimeout, DefaultHeartbeatTimeout},
		{"connect timeout", &o.ConnectTimeout, DefaultConnectTimeout},
		{"shutdown timeout", &o.ShutdownTimeout, DefaultShutdownTimeout},
	} {
		if *limit.value < 0 {
			return o, status.Errorf(status.InvalidArgument, "expected a %s of at least 0, got %v", limit.name, *limit.value)
		}
		if *limit.value == 0 {
			*limit.value = limit.fallback
		}
	}
	return o, nil
}

// checkToken never puts the token into its message.
func checkToken(token string) error {
	if len(token) < shortestToken {
		return status.Errorf(status.InvalidArgument, "expected a token of %d characters or more, got %d: set %s to a longer text", shortestToken, len(token), TokenVariable)
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return status.Errorf(status.InvalidArgument, "expected a token of printable ASCII characters without spaces: set %s to another text", TokenVariable)
		}
	}
	return nil
}

func (o Options) target() string { return net.JoinHostPort(o.Address, o.Port) }
