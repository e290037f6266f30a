package transfer

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
)

// Shelf is where a Finder looks for files, and keeps those that it fetched. *media.Keeper implements it.
type Shelf interface {
	// Open opens a file that the instance may read; see Files.
	Open(ctx context.Context, i relay.InstanceID, id relay.MediaID) (f relay.File, done func(), err error)
	// Temp makes an empty file that may grow to size, and is gone after done, which is never nil. Without room for it,
	// the error is media.ErrNoSpace.
	Temp(ctx context.Context, of fair.Owner, size int64) (f *os.File, done func(), err error)
	// Owner returns the owner whose share the instance's files count against.
	Owner(ctx context.Context, i relay.InstanceID) fair.Owner
}

// Finder finds the files that gateways want to send. Its methods may be called from any goroutine.
type Finder struct {
	// Set once, by NewFinder.
	shelf  Shelf
	guard  *guard.Guard
	client *http.Client // sends requests to other servers, through guard
	count  func(count.Counter)
	places *fair.Places // for fetches
}

// NewFinder makes a finder. It sends its requests through g, which must let answers be as large as the largest file.
func NewFinder(shelf Shelf, g *guard.Guard, tell func(count.Counter)) *Finder {
	return &Finder{
		shelf: shelf, guard: g, client: &http.Client{Transport: g.Transport(), CheckRedirect: redirect}, count: tell,
		places: fair.NewPlaces(maxAll, maxEach),
	}
}

// Source returns the file at an address: one of ours that the instance may read, or one on a server elsewhere. name is
// its new name; empty: its name there. done releases it, and is never nil. Errors are *relay.ActionError, not sent.
func (f *Finder) Source(ctx context.Context, i relay.InstanceID, address, name string) (relay.File, func(), error) {
	address, _, _ = strings.Cut(strings.TrimSpace(address), "#")
	u, err := url.Parse(address)
	if err != nil {
		return relay.File{}, nothing, refused("not an address", nil)
	}
	id, ours := pathID(u.EscapedPath())
	if ours {
		file, done, err := f.shelf.Open(ctx, i, id)
		switch {
		case err == nil:
			if name != "" {
				file.Name = filename.Fit(name, file.FileFacts)
			}
			return file, done, nil
		case !errors.Is(err, media.ErrNoFile):
			return relay.File{}, nothing, relay.Later("the file cannot be read now", err)
		}
	}
	if f.guard.Ours(u) {
		return relay.File{}, nothing, errNotFound()
	}
	file, done, err := f.outside(ctx, i, address, name)
	if err != nil && ours && errors.Is(err, guard.ErrBlocked) { // our own, by a name that only the gateway's network knows
		err = errNotFound()
	}
	return file, done, err
}

// outside waits for a place, and fetches a file from elsewhere into a temporary file.
func (f *Finder) outside(ctx context.Context, i relay.InstanceID, address, name string) (relay.File, func(), error) {
	of := f.shelf.Owner(ctx, i)
	hold, place, ok := f.places.Enter(ctx, of, placeTime)
	if !ok {
		f.count(count.MediaBusy)
		return relay.File{}, nothing, refused("too many at once", nil)
	}
	defer place.Leave()
	var temp *os.File
	done := nothing
	got, err := f.get(hold, address, func(size int64) (_ *sink, err error) {
		temp, done, err = f.shelf.Temp(hold, of, size)
		return &sink{w: temp, place: place}, err
	})
	if err != nil {
		done()
		switch {
		case isAskedBack(hold):
			f.count(count.MediaBusy)
			err = refused(askedBack, nil)
		case errors.Is(err, guard.ErrBlocked):
			f.count(count.MediaBlocked)
		}
		return relay.File{}, nothing, err
	}
	f.count(count.MediaSourced)
	file := relay.File{FileFacts: sniff.Of(temp, got.size), Content: temp}
	if name == "" {
		name = path.Base(got.path)
	}
	file.Name = filename.Fit(name, file.FileFacts)
	return file, done, nil
}

func nothing() {}

// errNotFound returns the error for an address of ours at which the instance finds no file.
func errNotFound() *relay.ActionError {
	return relay.Refused("media not found or expired", nil)
}

// refused returns the error for a file that cannot be had. err must not contain an address.
func refused(why string, err error) *relay.ActionError {
	return relay.Refused("media not fetched: "+why, err)
}
