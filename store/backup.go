package store

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// BackupInfo describes a backup.
type BackupInfo struct {
	At     time.Time // to the second
	Bytes  int64
	Commit uint64 // as Stats.Commit
}

// Backup writes the database as it is now to w. The database stays in use; later commits are not in the backup.
// Everything is checked before it is copied: if something is damaged it returns ErrDamaged, which names the damage, and
// has written nothing. After an error of ctx or of w, the content of w is worthless. The vault's key is not in it.
//
// On a 32-bit host, a commit that makes the file outgrow its mapping (256 MiB at first) waits until Backup has ended.
func (db *DB) Backup(ctx context.Context, w io.Writer) (BackupInfo, error) {
	var info BackupInfo
	n, err := db.records.File.Copy(ctx, w, func(commit uint64, _ boltfile.Place) {
		info.At, info.Commit = db.now().Truncate(time.Second), commit
	})
	if err == nil {
		info.Bytes = n + boltfile.TrailerSize
		_, err = w.Write(boltfile.Trailer(info.At))
	}
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	return info, nil
}

// Copy writes the database file as it is now to w, as Backup does, but without the trailer. It returns the place in the
// log at which that content is.
func (db *DB) Copy(ctx context.Context, w io.Writer) (at boltfile.Place, err error) {
	_, err = db.records.File.Copy(ctx, w, func(_ uint64, place boltfile.Place) { at = place })
	return at, err
}

// VerifyFile checks the database file at path, or an unencrypted backup of one. It returns nil, or ErrDamaged with the
// damage named. The answer can be wrong only if a server writes to the file at the same time.
func VerifyFile(path string) error {
	if err := boltfile.Verify(path); err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	return nil
}
