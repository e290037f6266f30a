package doctor

import (
	"net"
)

// machine is what of the machine is looked at. The zero value of a field means the real one.
type machine struct {
	proc   string                              // where the kernel shows processes
	disk   func(path string) (disk, error)     // of the file system that path lies in
	listen func(network, address string) error // whether a listener could be there
	may    func(path string) error             // whether this process may write there
}

// disk is a file system. Sizes are 0 where it has no such bound.
type disk struct {
	kind         uint32 // of the kernel's numbers; 0: not known
	free         uint64 // bytes that this user may fill
	inodes, left uint64 // that there can be, and that are left
}

func (m machine) orReal() machine {
	if m.proc == "" {
		m.proc = "/proc"
	}
	if m.disk == nil {
		m.disk = diskOf
	}
	if m.may == nil {
		m.may = mayWrite
	}
	if m.listen == nil {
		m.listen = func(network, address string) error {
			l, err := net.Listen(network, address)
			if err != nil {
				return err
			}
			return l.Close()
		}
	}
	return m
}
