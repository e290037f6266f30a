package dialect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

var pieces = platformtest.Pieces{Parser: form.Parser, Clean: Clean, Diff: func(source string, b markdown.Bounds) string {
	return cmp.Diff(Render(source), renderWithin(source, b))
}}

func TestInPiecesAsAtOnce(t *testing.T) { pieces.Test(t) }

func FuzzPieces(f *testing.F) { pieces.Fuzz(f) }
