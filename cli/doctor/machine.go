package doctor

import (
	"net"
	"os"
	"strings"
)

// machine is how doctor sees the machine. A zero field means the real one.
type machine struct {
	proc   string                              // where the kernel shows processes
	disk   func(path string) (disk, error)     // returns the file system of path
	listen func(network, address string) error // returns why a listener cannot listen at address; nil: it can
	may    func(path string) error             // returns why this process may not write to the folder; nil: it may
	boxed  func() bool                         // reports whether this is a container for the server alone, usually with its own network
	guest  string                              // Options.Guest: the command that shows more to another user
	start  string                              // Options.Start: the command that starts the server
	copies []string                            // folders for a copy of the database; the first that can be written is used
}

// disk is a file system.
type disk struct {
	kind         uint32 // the kernel's number for the file system's type; 0: not known
	free         uint64 // bytes that this user may fill
	inodes, left uint64 // how many files there can be, and how many more; inodes is 0 if their number has no limit
}

// instead returns the fix for what this user may not see: how to run the command as somebody who may.
func (m machine) instead() string {
	if m.guest == "" {
		return "run this command as the user the server runs as"
	}
	return "`" + m.guest + "`"
}

// orReal returns m with the real machine's parts where m has none.
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
