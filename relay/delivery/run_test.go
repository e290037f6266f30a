package delivery

import "context"

// Run is Start for who waits for the end.
func (p *Pump) Run(ctx context.Context) error {
	over := make(chan error, 1)
	p.Start(ctx, func(work func()) { go work() }, func(err error) { over <- err })
	return <-over
}
