// Command image writes the container image as an OCI archive: one file with an image for each machine, which Podman,
// Docker and the tools of registries read. It builds the same image as packaging/Dockerfile, without an engine: the
// program, root certificates, time zones, and nothing else. The time of every file is $SOURCE_DATE_EPOCH, and the
// certificates come from a Go module (golang.org/x/crypto), not from this machine, so that two runs give the same
// bytes.
//
// usage: image FOLDER VERSION ARCHIVE
//
// FOLDER has a program for each machine, as packaging/release builds them: FOLDER/amd64/hermes-connector and so on.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// machines are the images of an archive, by the folder that has their program.
var machines = []struct {
	folder   string
	platform v1.Platform
}{
	{"amd64", v1.Platform{OS: "linux", Architecture: "amd64"}},
	{"arm64", v1.Platform{OS: "linux", Architecture: "arm64"}},
	{"armv7", v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
	{"armv6", v1.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}},
}

// user is the number of the user and of the group that own the volume and run the program.
const user = 65532

// settings are the image's defaults for a container engine. The Dockerfile has the same.
var settings = v1.Config{
	Env: []string{
		"PATH=/usr/bin", "HOME=/data", "ZONEINFO=/usr/share/zoneinfo/zoneinfo.zip", "HERMES_CONNECTOR_DATA_DIR=/data",
	},
	User:         fmt.Sprintf("%d:%[1]d", user),
	Volumes:      map[string]struct{}{"/data": {}},
	ExposedPorts: map[string]struct{}{"8787/tcp": {}, "8788/tcp": {}},
	Healthcheck: &v1.HealthConfig{
		Test:     []string{"CMD", "/usr/bin/hermes-connector", "healthcheck"},
		Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: time.Minute,
	},
	Entrypoint: []string{"/usr/bin/hermes-connector"},
	Cmd:        []string{"serve"},
}

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: image FOLDER VERSION ARCHIVE")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	made := time.Unix(seconds, 0).UTC()
	folder, version, archive := args[0], args[1], args[2]
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, m := range machines {
		img, err := image(filepath.Join(folder, m.folder, "hermes-connector"), version, m.platform, made)
		if err != nil {
			return err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &m.platform}})
	}
	return write(archive, version, all, made)
}

// image makes the image for one platform.
func image(program, version string, platform v1.Platform, made time.Time) (v1.Image, error) {
	content, err := files(program, made)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	config := settings
	config.Labels = map[string]string{
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   "https://github.com/hermes-connector/hermes-connector",
		"org.opencontainers.image.licenses": "MIT",
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Created: v1.Time{Time: made}, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "packaging/release"}})
}

// files returns the one layer of an image, as a tar.
func files(program string, made time.Time) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	zones, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name    string // that of a folder ends with a slash
		mode    int64
		owner   int
		content []byte
	}{
		{name: "data/", mode: 0o700, owner: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "hermes-connector:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "hermes-connector:x:%d:%[1]d::/data:/\n", user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/hermes-connector", mode: 0o755, content: binary},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/zoneinfo/", mode: 0o755},
		{name: "usr/share/zoneinfo/zoneinfo.zip", mode: 0o644, content: zones},
	} {
		if err := add(w, tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: made}, f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func add(w *tar.Writer, h tar.Header, content []byte) error {
	h.Size = int64(len(content))
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// roots returns the certificates that Mozilla trusts, as PEM. It leaves out those that Mozilla trusts only under a
// condition, which PEM cannot express.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

// write puts the images into one file, under a name that no registry has.
func write(archive, version string, images v1.ImageIndex, made time.Time) error {
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: images, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"io.containerd.image.name":          "localhost/hermes-connector:" + version,
		"org.opencontainers.image.ref.name": version,
	}}})
	if _, err := layout.Write(folder, named); err != nil {
		return err
	}
	to, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if err := pack(to, folder, made); err != nil {
		return err
	}
	return to.Close()
}

// pack writes a folder's files as a tar, in the order of their names.
func pack(to io.Writer, folder string, made time.Time) error {
	w := tar.NewWriter(to)
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		return add(w, tar.Header{Name: name, Mode: 0o644, ModTime: made}, content)
	})
	if err != nil {
		return err
	}
	return w.Close()
}
