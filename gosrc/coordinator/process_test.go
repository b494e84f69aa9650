package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"xla_go/gosrc/status"
)

// childVariable makes this test program a rank of a job instead.
const childVariable = "XLA_GO_COORDINATOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := runRank(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runRank exchanges values with the others, tells them, and waits at a barrier that nobody reaches, or,
// where standard input says so, leaves.
func runRank() error {
	options, err := FromEnvironment()
	if err != nil {
		return err
	}
	options.ConnectTimeout, options.ShutdownTimeout = patience, patience
	c, err := Start(context.Background(), options)
	if err != nil {
		return err
	}
	if err := c.Set(context.Background(), "rank/"+strconv.Itoa(c.Rank()), []byte(fmt.Sprintf("%d*%d", c.Rank(), c.Rank()))); err != nil {
		return err
	}
	var values []string
	for rank := range c.WorldSize() {
		value, err := c.Get(context.Background(), "rank/"+strconv.Itoa(rank), patience)
		if err != nil {
			return err
		}
		values = append(values, string(value))
	}
	if err := c.Barrier(context.Background(), "exchanged", patience); err != nil {
		return err
	}
	fmt.Println("exchanged", strings.Join(values, " "))
	order, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	if order == "leave\n" {
		return c.Close()
	}
	fmt.Println("waiting")
	fmt.Println("told", c.Barrier(context.Background(), "never", patience))
	return c.Close()
}

// rankProcess is a rank in a process of its own.
type rankProcess struct {
	*exec.Cmd
	rank   int
	orders *os.File
	lines  chan string // closed with the output
}

func startRanks(t *testing.T, ranks int) []*rankProcess {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	token := NewToken()
	var job []*rankProcess
	for rank := range ranks {
		p := &rankProcess{Cmd: exec.Command(os.Args[0]), rank: rank, lines: make(chan string, 16)}
		p.Env = append(os.Environ(), childVariable+"=1", "MASTER_ADDR=127.0.0.1", "XLA_COORDINATOR_PORT="+port, TokenVariable+"="+token,
			"RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(ranks), "DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC="+strconv.Itoa(int(processTimeout/time.Second)))
		p.Stderr = os.Stderr
		orders, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p.Stdin, p.orders = orders, write
		output, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		orders.Close()
		go func() {
			defer close(p.lines)
			for scanner := bufio.NewScanner(output); scanner.Scan(); {
				p.lines <- scanner.Text()
			}
		}()
		t.Cleanup(func() {
			p.orders.Close()
			_ = p.Process.Kill() // an error where it has ended
			for range p.lines {
			}
			_ = p.Wait()
		})
		job = append(job, p)
	}
	return job
}

const processTimeout = 2 * time.Second

func (p *rankProcess) expect(t *testing.T, within time.Duration, texts ...string) {
	t.Helper()
	select {
	case line, open := <-p.lines:
		for _, text := range texts {
			if !open || !strings.Contains(line, text) {
				t.Errorf("rank %d: expected %q, got %q", p.rank, text, line)
			}
		}
	case <-time.After(within):
		t.Errorf("rank %d said nothing within %v, expected %q", p.rank, within, texts)
	}
}

func (p *rankProcess) order(t *testing.T, text string) {
	t.Helper()
	if _, err := p.orders.WriteString(text + "\n"); err != nil {
		t.Fatal(err)
	}
}

// TestProcesses: two processes and then four meet, exchange values, and hear of the one that was
// killed or stopped.
func TestProcesses(t *testing.T) {
	for _, test := range []struct {
		name   string
		ranks  int
		victim int
		signal syscall.Signal
	}{
		{"all of two leave", 2, -1, 0},
		{"one of two is killed", 2, 1, syscall.SIGKILL},
		{"one of four is killed", 4, 2, syscall.SIGKILL},
		{"one of four is stopped", 4, 3, syscall.SIGSTOP},
		{"rank 0 of four is killed", 4, 0, syscall.SIGKILL},
		{"rank 0 of two is stopped", 2, 0, syscall.SIGSTOP},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := startRanks(t, test.ranks)
			squares := strings.Join([]string{"0*0", "1*1", "2*2", "3*3"}[:test.ranks], " ")
			for _, p := range job {
				p.expect(t, patience, "exchanged "+squares)
			}
			if test.victim < 0 {
				for _, p := range job {
					p.order(t, "leave")
				}
				for _, p := range job {
					for line := range p.lines {
						t.Errorf("rank %d: %s", p.rank, line)
					}
				}
				return
			}
			for _, p := range job {
				if p.rank != test.victim {
					p.order(t, "wait")
					p.expect(t, patience, "waiting")
				}
			}
			killed := time.Now()
			if err := job[test.victim].Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			for _, p := range job {
				if p.rank != test.victim {
					p.expect(t, patience, "told", status.Unavailable.String(), fmt.Sprintf("rank %d is dead", test.victim))
				}
			}
			// The rest is what this machine takes to say so.
			if took := time.Since(killed); took > processTimeout+processTimeout/2 {
				t.Errorf("the others were told after %v, with a timeout of %v", took, processTimeout)
			} else {
				t.Logf("told after %v", took)
			}
		})
	}
}
