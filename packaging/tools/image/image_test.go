package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const epoch = "1700000000"

// built writes an archive of programs that only say which machine they are of.
func built(t *testing.T) (archive string) {
	t.Helper()
	folder := t.TempDir()
	for _, m := range machines {
		if err := os.Mkdir(filepath.Join(folder, m.folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, m.folder, "hermes-connector"), []byte(m.folder), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive = filepath.Join(folder, "image.tar")
	if err := run([]string{folder, "1.2.3", archive}, epoch); err != nil {
		t.Fatal(err)
	}
	return archive
}

// unpacked reads an archive back.
func unpacked(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	raw, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, f := range entries(t, bytes.NewReader(raw)) {
		path := filepath.Join(folder, f.header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

type entry struct {
	header  *tar.Header
	content []byte
}

func entries(t *testing.T, from io.Reader) (all []entry) {
	t.Helper()
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("%s is of %v, want the time of $SOURCE_DATE_EPOCH", h.Name, h.ModTime)
		}
		all = append(all, entry{h, content})
	}
}

// TestArchive: there is one image for each machine, with its program and what the Dockerfile says.
func TestArchive(t *testing.T) {
	archive := built(t)
	outer, err := unpacked(t, archive).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(outer.Manifests) != 1 || outer.Manifests[0].MediaType != types.OCIImageIndex ||
		outer.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/hermes-connector:1.2.3" {
		t.Fatalf("the archive has %+v", outer.Manifests)
	}
	index, err := unpacked(t, archive).ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(inner.Manifests) != len(machines) {
		t.Fatalf("%d images, want %d", len(inner.Manifests), len(machines))
	}
	for i, m := range machines {
		if got := inner.Manifests[i].Platform; !got.Equals(m.platform) {
			t.Errorf("image %d is for %v, want %v", i, got, m.platform)
		}
		img, err := index.Image(inner.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		judge(t, img, m.folder, m.platform)
	}
}

// judge looks at one image.
func judge(t *testing.T, img v1.Image, program string, platform v1.Platform) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !file.Platform().Equals(platform) || file.Config.Labels["org.opencontainers.image.version"] != "1.2.3" {
		t.Errorf("the image is for %v, and has %v", file.Platform(), file.Config.Labels)
	}
	file.Config.Labels = nil
	if !reflect.DeepEqual(file.Config, settings) {
		t.Errorf("the image says %+v, want %+v", file.Config, settings)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range entries(t, content) {
		h := f.header
		if want := map[bool]int{true: user}[h.Name == "data/"]; h.Uid != want || h.Gid != want {
			t.Errorf("%s is %d's and %d's, want %d", h.Name, h.Uid, h.Gid, want)
		}
		if h.Name == "usr/bin/hermes-connector" {
			found = h.FileInfo().Mode().Perm() == 0o755 && string(f.content) == program
		}
	}
	if !found {
		t.Errorf("the image for %v does not have the program %q", platform, program)
	}
}

// TestSameBytes: two runs give the same archive.
func TestSameBytes(t *testing.T) {
	one, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(built(t))
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("two runs differ, %v", err)
	}
}

// TestRoots: they are certificates, and many.
func TestRoots(t *testing.T) {
	pem := roots()
	if !x509.NewCertPool().AppendCertsFromPEM(pem) || bytes.Count(pem, []byte("BEGIN CERTIFICATE")) < 80 {
		t.Errorf("%d bytes of certificates", len(pem))
	}
}

func TestWrongCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		epoch string
		want  string
	}{
		"no archive named":   {[]string{"folder", "1.2.3"}, epoch, "usage"},
		"no time":            {[]string{"folder", "1.2.3", "archive"}, "", "SOURCE_DATE_EPOCH"},
		"no program to pack": {[]string{t.TempDir(), "1.2.3", "archive"}, epoch, "amd64/hermes-connector"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(tc.args, tc.epoch); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("run(%q) = %v, want one that says %q", tc.args, err, tc.want)
			}
		})
	}
}

// alike compares the files of this program's image, and their modes, with those that a step of the Dockerfile made in a folder.
func alike(t *testing.T, folder string) {
	t.Helper()
	content, err := files(filepath.Join(folder, "usr", "bin", "hermes-connector"), time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range entries(t, bytes.NewReader(content)) {
		if f.header.Name != "data/" { // which the Dockerfile makes beside the others, for its owner
			want = append(want, f.header.FileInfo().Mode().String()+" "+strings.TrimSuffix(f.header.Name, "/"))
		}
	}
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err == nil {
			got = append(got, info.Mode().String()+" "+name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the Dockerfile makes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
