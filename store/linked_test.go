package store_test

import (
	"io"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/restore"
)

func init() {
	link := func(f func(string, io.Reader, store.Options) (restore.Restored, error)) func(string, io.Reader, store.Options) (store.Restored, error) {
		return func(path string, r io.Reader, o store.Options) (store.Restored, error) {
			got, err := f(path, r, o)
			return store.Restored{
				Kept: got.Kept, Compared: got.Compared, Carried: got.Carried, FellBack: got.FellBack, Damaged: got.Damaged,
				Lost: store.Content(got.Lost), Back: store.Content(got.Back), Unread: got.Unread, MadeAt: got.MadeAt,
			}, err
		}
	}
	store.Restore, store.Salvage = link(restore.Restore), link(restore.Salvage)
}
