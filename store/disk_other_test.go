//go:build !linux

package store

import "os"

func dataSync(f *os.File) error { return f.Sync() }

// bytesWritten is known on Linux only.
func bytesWritten() int64 { return 0 }
