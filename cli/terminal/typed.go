package terminal

import (
	"bufio"
	"io"
)

// Typed returns the lines of r as they come. ends yields the reader's error, nil at the end of the input. A read from a
// terminal cannot be interrupted, so nobody can wait for the goroutine: it ends with the input.
func Typed(r io.Reader) (lines <-chan string, ends <-chan error) {
	out, end := make(chan string), make(chan error, 1)
	go func() {
		defer close(out)
		s := bufio.NewScanner(r)
		for s.Scan() {
			out <- s.Text()
		}
		end <- s.Err()
	}()
	return out, end
}
