package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// told is the cause of a context that ended because somebody told the server to stop. errors.Is still finds
// context.Canceled.
type told struct{ why string }

func (t told) Error() string { return t.why }

func (told) Is(err error) bool { return err == context.Canceled }

// signals makes two contexts: stop ends with the first SIGINT or SIGTERM, and its cause names the signal; hurry ends
// with the second one. release ends both, and waits until a reload that is under way has returned.
//
// A SIGHUP asks for a reload. It means SIGTERM instead if reload is nil, or if the terminal on which the process was
// started has gone. A process that was started to ignore SIGHUP (by nohup) outlives its terminal: there a SIGHUP always
// asks for a reload, and without reload it does nothing.
//
// Reloads run one at a time, on a goroutine of their own, so that a long one holds up no other signal. A SIGHUP that
// comes meanwhile causes one more.
func signals(parent context.Context, reload func(context.Context)) (stop, hurry context.Context, release func()) {
	stop, cancelStop := context.WithCancelCause(parent)
	hurry, cancelHurry := context.WithCancel(parent)
	kinds := []os.Signal{os.Interrupt, syscall.SIGTERM}
	nohup := signal.Ignored(syscall.SIGHUP)
	if reload != nil || !nohup {
		kinds = append(kinds, syscall.SIGHUP)
	}
	arrived := make(chan os.Signal, 4) // room for both interrupts, so that none is missed
	signal.Notify(arrived, kinds...)
	onTerminal := terminal.Is(os.Stdin)
	asksForReload := func(s os.Signal) bool {
		terminalGone := onTerminal && !terminal.Is(os.Stdin)
		return s == syscall.SIGHUP && reload != nil && (nohup || !terminalGone)
	}
	var wg sync.WaitGroup
	due := make(chan struct{}, 1) // a reload was asked for since the last one began
	wg.Go(func() {
		for {
			select {
			case <-due:
				reload(stop)
			case <-stop.Done():
				return
			}
		}
	})
	wg.Go(func() {
		stopping := false
		for {
			select {
			case s := <-arrived:
				switch {
				case asksForReload(s):
					select {
					case due <- struct{}{}:
					default: // one is due already
					}
				case !stopping:
					stopping = true
					cancelStop(told{reason(s)})
				case s != syscall.SIGHUP:
					cancelHurry()
				}
			case <-hurry.Done():
				return
			}
		}
	})
	return stop, hurry, func() {
		signal.Stop(arrived)
		cancelStop(nil)
		cancelHurry()
		wg.Wait()
	}
}

// reason returns the meaning of a signal, in words.
func reason(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "interrupted"
	case syscall.SIGHUP:
		return "the terminal was closed"
	}
	return "asked to stop (SIGTERM)"
}
