package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// ErrNoServer: no server listens on the socket, or the socket does not exist.
var ErrNoServer = errors.New("no server is running")

// ErrDenied: this user may not use the socket, or may not see whether there is one.
var ErrDenied = errors.New("belongs to another user: run this command as the user the server runs as")

// maxPath is the longest path that fits the kernel's socket address (108 bytes on Linux, 104 elsewhere) with its final
// zero.
const maxPath = 103

// short returns path or, if path is too long for a socket address, another name for it. That name leads through an open
// descriptor of the folder, which release closes. Only Linux has such names.
func short(path string) (usable string, release func(), err error) {
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	usable = filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(usable)); err != nil {
		_ = dir.Close()
		return "", nil, fmt.Errorf("%s is longer than the %d bytes a socket's address holds: choose a shorter data_dir", path, maxPath)
	}
	return usable, func() { _ = dir.Close() }, nil
}

// Listen makes the admin socket, for this user alone. The caller has the database open, so a socket that is already
// there belongs to a process that died, and is replaced. Closing the listener removes the socket.
func Listen(ctx context.Context, path string) (net.Listener, error) { return listen(ctx, path, 0o600) }

// ListenShared is Listen for a socket that the group of its folder may use, too. The group may only if the folder lets
// in that group and nobody else (mode 0750), as the folder does that the unit of a service makes.
func ListenShared(ctx context.Context, path string) (net.Listener, error) {
	mode := fs.FileMode(0o600)
	if st, err := os.Stat(filepath.Dir(path)); err == nil && st.Mode().Perm()&0o017 == 0o010 && files.Group(st) == os.Getegid() {
		mode = 0o660
	}
	return listen(ctx, path, mode)
}

// listen makes a socket at path with that mode, in place of a socket that is there.
func listen(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	st, err := os.Lstat(path)
	switch {
	case err == nil && st.Mode().Type() != fs.ModeSocket:
		err = fmt.Errorf("%s exists and is no socket: move it away", path)
	case err == nil:
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	usable, release, err := short(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Before the bind: on Linux the file then has this mode from its first moment on, so that nobody else can
		// connect before os.Chmod. Other systems refuse the call; there the mode that os.Chmod sets counts.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := lc.Listen(ctx, "unix", usable)
	if err != nil {
		release()
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		release()
		return nil, errors.Join(fmt.Errorf("admin socket: %w", err), l.Close())
	}
	return &listener{Listener: l, release: release}, nil
}

// listener closes the folder's descriptor after the socket was removed, which needs it.
type listener struct {
	net.Listener
	release func()
}

func (l *listener) Close() error {
	err := l.Listener.Close()
	l.release()
	return err
}

// foreign refuses a socket of another user, who could read the requests and forge the answers. Root may use a socket if
// its owner also owns the folder, as with a service; a member of the service's group may use the service's socket.
func foreign(path string) error {
	who := files.Anothers(path)
	if who == "" || os.Geteuid() == 0 && files.Anothers(filepath.Dir(path)) == who || ofMyGroup(path) {
		return nil
	}
	return fmt.Errorf("%s belongs to the user %s: run this command as that user", path, who)
}

// ofMyGroup reports whether a socket is open to a group of this user and is a service's: its folder belongs to the
// socket's owner, and only root can have given the owner that folder.
func ofMyGroup(path string) bool {
	socket, err := os.Lstat(path)
	folder, err2 := os.Lstat(filepath.Dir(path))
	above, err3 := os.Lstat(filepath.Dir(filepath.Dir(path)))
	groups, err4 := os.Getgroups()
	return errors.Join(err, err2, err3, err4) == nil && socket.Mode() == fs.ModeSocket|0o660 &&
		slices.Contains(append(groups, os.Getegid()), files.Group(socket)) &&
		folder.IsDir() && files.Owner(folder) == files.Owner(socket) &&
		above.IsDir() && files.Owner(above) == 0 && above.Mode().Perm()&0o022 == 0
}

// dialError returns ErrNoServer, an ErrDenied with the path, or err itself, for the error of a dial.
func dialError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return ErrNoServer
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("admin socket %s %w", path, ErrDenied)
	}
	return fmt.Errorf("admin socket: %w", err)
}
