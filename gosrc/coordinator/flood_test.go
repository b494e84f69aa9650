package coordinator

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// TestFlood: strangers that are silent, talk nonsense, send headers without end or call without the token, all at once and
// hundreds of them, cost the job nothing, and none of them keeps rank 0 from closing.
func TestFlood(t *testing.T) {
	job := startJob(t, 2, nil)
	address := job[0].Address()
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	headers := append(bytes.Clone(preface), 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 1) // a frame of 16 MiB of headers
	var group sync.WaitGroup
	stop := make(chan struct{})
	for number := range 200 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer conn.Close()
			switch number % 4 {
			case 0: // silent
				<-stop
				return
			case 1:
				_, _ = conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1<<10))
			case 2:
				_, _ = conn.Write(headers)
				_, _ = conn.Write(make([]byte, 1<<20))
			case 3:
				_, _ = conn.Write(preface[:len(preface)-number%8-1])
			}
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			done := make(chan struct{})
			go func() { defer close(done); _, _ = io.Copy(io.Discard, conn) }()
			select {
			case <-done:
			case <-stop:
				conn.Close()
				<-done
			}
		})
	}
	for range 4 {
		group.Go(func() {
			conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			stub := proto.NewCoordinatorClient(conn)
			value := make([]byte, 1<<20)
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, "a token that is wrong", rankKey, "1")
				if _, err := stub.Set(ctx, &proto.SetRequest{Key: []byte("key"), Value: value}); err == nil {
					t.Error("a stranger sets a value")
					return
				}
			}
		})
	}
	for round := range 20 {
		var ranks sync.WaitGroup
		for _, c := range job {
			ranks.Go(func() {
				if err := c.Barrier(t.Context(), "step", patience); err != nil {
					t.Errorf("rank %d, round %d: %v", c.Rank(), round, err)
				}
			})
		}
		ranks.Wait()
	}
	if _, err := job[1].TryGet(t.Context(), "key"); status.CodeOf(err) != status.NotFound {
		t.Errorf("the value of a stranger: %v", err)
	}
	close(stop)
	group.Wait()
}

// TestCloseAmongStrangers: rank 0 ends in time while strangers hold connections open.
func TestCloseAmongStrangers(t *testing.T) {
	job := startJob(t, 1, nil)
	for range 20 {
		conn, err := net.Dial("tcp", job[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	began := time.Now()
	if err := job[0].Close(); err != nil || time.Since(began) > patience/2 {
		t.Errorf("Close: %v after %v", err, time.Since(began))
	}
}
