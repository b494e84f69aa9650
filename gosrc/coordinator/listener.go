package coordinator

import (
	"net"
	"sync"
)

// listener knows the connections that it has accepted. gRPC waits at its end for those on which nobody has said anything
// yet, for two minutes, and does not know them itself.
type listener struct {
	net.Listener
	mutex sync.Mutex
	open  map[*accepted]struct{}
}

// accepted is a connection that its listener can close.
type accepted struct {
	net.Conn
	of *listener
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &accepted{conn, l}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.open == nil {
		l.open = map[*accepted]struct{}{}
	}
	l.open[a] = struct{}{}
	return a, nil
}

func (a *accepted) Close() error {
	a.of.mutex.Lock()
	delete(a.of.open, a)
	a.of.mutex.Unlock()
	return a.Conn.Close()
}

// closeAll closes every connection that is open.
func (l *listener) closeAll() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for a := range l.open {
		_ = a.Conn.Close() // its user finds it closed
	}
}
