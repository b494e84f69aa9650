package client

// Profiler is a client whose plugin may record what it and its devices do, as those of pjrtclient and ifrtclient are.
type Profiler interface {
	// StartProfile begins to record. Unimplemented where the plugin has no profiler.
	StartProfile() (Profile, error)
}

// Profile is a recording that goes on.
type Profile interface {
	// Stop ends it and gives what was recorded, a serialized XSpace (package xspace reads it). Once. BLOCKING for as long
	// as the plugin collects.
	Stop() ([]byte, error)
}
