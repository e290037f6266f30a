package platformtest

import (
	"errors"
	"fmt"
	"syscall"
)

// HoldPort finds a port of 127.0.0.1 for a server in another process, which cannot pick one itself or
// must come back on the same. Until release is called, nobody is given that port unasked, while
// whoever asks for it may listen on it; a connection is refused when nobody does.
func HoldPort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	syscall.CloseOnExec(fd)
	// Bound, and not listening: servers set the same option, and so may bind beside it.
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	at, nameErr := syscall.Getsockname(fd)
	addr, ok := at.(*syscall.SockaddrInet4)
	if err = errors.Join(err, nameErr); err != nil || !ok {
		_ = syscall.Close(fd)
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	return addr.Port, func() { _ = syscall.Close(fd) }, nil
}
