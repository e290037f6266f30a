package httpcall

import "io"

// Bounded reads a file from a network, whose length may be unknown, and fails if the file is larger than allowed.
type Bounded struct {
	io.ReadCloser
	Left    int64             // bytes that it may still have
	Larger  error             // what Read returns if the file has more bytes
	Private func(error) error // turns an error of Read into one that contains no address and no credential
	Done    func()            // called by Close, when the reading is over; nil: nothing is called
}

func (b *Bounded) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if b.Left -= int64(n); b.Left < 0 {
		return 0, b.Larger
	}
	if err != nil && err != io.EOF {
		err = b.Private(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *Bounded) Close() error {
	if b.Done != nil {
		defer b.Done()
	}
	return b.ReadCloser.Close()
}
