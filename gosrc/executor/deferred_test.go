package executor_test

import (
	"testing"
	"time"

	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/status"
)

// Results that are computed one by one after a failure that has passed are given to nobody before the failure can be
// told: whoever reads the first one while the last one is still computed would take the step for an undisturbed one.
func TestPassingFailureIsToldByTheFirstRead(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1), f.root(2, 3)
	a, b := f.empty(), f.empty()
	f.addScalar(a, x, 1)
	f.addScalar(b, y, 1)
	f.client.FailAt(fakeclient.Execute, 1, failure)
	f.client.Delay(fakeclient.Execute, 100*time.Millisecond) // each result by itself comes so much after the one before
	f.mustCut()
	w := f.wait(a)
	defer w.Close()
	for deadline := time.Now().Add(20 * time.Second); ; {
		done, err := w.Poll(100 * time.Millisecond)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the read has not ended well: %v", err)
		}
		if done {
			break
		}
	}
	f.wantCode("the end of the read", f.core.TakeDeferredError(), status.DataLoss)
	f.expect(a, 2)
	f.expect(b, 3, 4)
	if err := f.core.TakeDeferredError(); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

// A step that cannot be launched because an argument is lost gives its storages their values back. Where the loss has been
// told after the step was queued, that is not told once more; a step that uses the lost value afterwards tells it again.
func TestLossIsToldOnce(t *testing.T) {
	for name, late := range map[string]bool{"queued before it is told": false, "queued afterwards": true} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			x, w := f.root(1), f.root(5)
			lost, other := f.empty(), f.empty()
			f.client.FailAt(fakeclient.Execute, 1, failure)
			f.client.Delay(fakeclient.Execute, 100*time.Millisecond)
			f.addScalar(lost, x, 1)
			f.mustCut()
			f.addScalar(other, x, 2) // which has to be launched before a step can fail of what is lost
			f.mustCut()
			add := func() {
				f.apply(w, kindAdd, []int64{1}, w, lost)
				f.mustCut()
			}
			if !late {
				add()
			}
			_, err := f.data(lost)
			f.wantCode("the lost value", err, status.DataLoss)
			f.core.Reported(err)
			if late {
				add()
			}
			f.device.WaitIdle()
			if err := f.core.TakeDeferredError(); (err != nil) != late {
				t.Errorf("after the read: %v", err)
			}
			f.expect(w, 5)
		})
	}
}
