package doctor

import (
	"net"
	"os"
	"strings"
)

// machine is how doctor sees the machine. A zero field means the real one.
type machine struct {
	proc   string                              // where the kernel shows processes
	disk   func(path string) (disk, error)     // of the file system that path lies in
	listen func(network, address string) error // whether a listener could be there
	may    func(path string) error             // whether this process may write there
	boxed  func() bool                         // whether this is a container for the server alone, usually with its own network
	guest  string                              // as in Options
	start  string                              // as in Options
	copies []string                            // folders for a copy of the database; the first that is there is taken
}

// disk is a file system. A size of 0 means that there is no such limit.
type disk struct {
	kind         uint32 // of the kernel's numbers; 0: not known
	free         uint64 // bytes that this user may fill
	inodes, left uint64 // that there can be, and that are left
}

// instead returns the command that shows what this user may not see.
func (m machine) instead() string {
	if m.guest == "" {
		return "run this command as the user the server runs as"
	}
	return "`" + m.guest + "`"
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
	if m.boxed == nil {
		m.boxed = func() bool {
			first, _ := os.ReadFile(m.proc + "/1/cmdline") // the file exists on Linux only
			return strings.Contains(string(first), "hermes-connector\x00") && strings.Contains(string(first), "\x00serve\x00")
		}
	}
	if m.copies == nil {
		m.copies = []string{os.TempDir(), "/dev/shm"} // an image that holds nothing has no /tmp
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
