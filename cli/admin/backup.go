package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

// opBackup streams a copy of the database to the command, which writes the file. So the file lies where the operator
// wants it and belongs to them, even where the server may not write.
const opBackup = "backup"

// Whether a backup succeeded is known only when all of it is sent, so the result comes in one of these trailers.
const (
	backupAt    = "Backup-At" // RFC 3339
	backupError = "Backup-Error"
)

// maxTrailer is the longest text of a backup's error, in bytes. A client's read buffer, made in Dial, must have room
// for the whole trailer.
const maxTrailer = 32 << 10

// copies returns the handler that sends a copy of src.
func copies(src backup.Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", backupAt+", "+backupError)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // at once: the check of a large file takes longer than the client's patience for an answer
		info, err := src.Backup(r.Context(), w)
		if err != nil {
			text := err.Error()
			w.Header().Set(backupError, strings.ToValidUTF8(text[:min(len(text), maxTrailer)], ""))
			return
		}
		w.Header().Set(backupAt, info.At.Format(time.RFC3339))
	}
}

var _ backup.Source = (*Client)(nil)

// Backup writes a copy of the running server's database to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) (info store.BackupInfo, err error) {
	resp, err := c.post(ctx, opBackup, nil)
	if err != nil {
		return info, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, err := io.ReadAll(resp.Body)
		return info, cmp.Or(err, refusal(opBackup, raw))
	}
	if info.Bytes, err = io.Copy(w, resp.Body); err != nil {
		return info, fmt.Errorf("the running server's answer to %s: %w", opBackup, err)
	}
	if text := resp.Trailer.Get(backupError); text != "" {
		return info, errors.New(text)
	}
	if info.At, err = time.Parse(time.RFC3339, resp.Trailer.Get(backupAt)); err != nil {
		err = fmt.Errorf("the running server's answer to %s: the answer is cut off", opBackup)
	}
	return info, err
}
