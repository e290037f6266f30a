package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// told is why a server stops that was told to. For whoever asks, it is an ordinary end of a context.
type told struct{ why string }

func (t told) Error() string { return t.why }

// Is makes the cause of the end look like the end that it is.
func (told) Is(err error) bool { return err == context.Canceled }

// signals are two contexts: the first ends with the first SIGINT or SIGTERM, the second with the second one. reload is
// called for SIGHUPs, one at a time and again for those that came meanwhile, until the first context ends; one that says
// that the terminal went away is a SIGTERM, as every one is with no reload. Where SIGHUP was ignored before (nohup), no
// terminal's end ends anything. However long a reload takes, it holds up no other signal. The cause of the first
// context's end says which it was.
func signals(parent context.Context, reload func(context.Context)) (stop, hurry context.Context, release func()) {
	stop, cancelStop := context.WithCancelCause(parent)
	hurry, cancelHurry := context.WithCancel(parent)
	kinds := []os.Signal{os.Interrupt, syscall.SIGTERM}
	immune := signal.Ignored(syscall.SIGHUP) // nohup
	if reload != nil || !immune {
		kinds = append(kinds, syscall.SIGHUP)
	}
	came := make(chan os.Signal, 4) // both interrupts fit, so none is missed
	signal.Notify(came, kinds...)
	onTerminal := terminal.Is(os.Stdin)
	var wg sync.WaitGroup
	changed := make(chan struct{}, 1) // holds one value: there was a SIGHUP since the last reload began
	wg.Go(func() {
		for {
			select {
			case <-changed:
				reload(stop)
			case <-stop.Done():
				return
			}
		}
	})
	wg.Go(func() {
		for ended := false; ; {
			var s os.Signal
			select {
			case s = <-came:
			case <-hurry.Done():
				return
			}
			switch {
			case s == syscall.SIGHUP && reload != nil && (immune || !onTerminal || terminal.Is(os.Stdin)):
				select {
				case changed <- struct{}{}:
				default:
				}
			case ended && s != syscall.SIGHUP:
				cancelHurry()
			case !ended:
				ended = true
				cancelStop(told{reason(s)})
			}
		}
	})
	return stop, hurry, func() {
		signal.Stop(came)
		cancelStop(nil)
		cancelHurry()
		wg.Wait()
	}
}

// reason is what a signal means, in words.
func reason(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "interrupted"
	case syscall.SIGHUP:
		return "the terminal went away"
	}
	return "told to stop (SIGTERM)"
}
