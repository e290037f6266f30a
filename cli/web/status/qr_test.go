package status

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/qr"
)

// TestSquares: the path covers the dark modules, and no others.
func TestSquares(t *testing.T) {
	want := qr.Rows("https://t.me/our_bot?start=KQ29F4M7X")
	drawn := make(map[string]bool)
	for _, m := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`).FindAllStringSubmatch(squares(want), -1) {
		x, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[3])
		for i := range n {
			drawn[fmt.Sprint(x+i, " ", m[2])] = true
		}
	}
	for y, row := range want {
		for x, dark := range row {
			if drawn[fmt.Sprint(x, " ", y)] != dark {
				t.Fatalf("module %d, %d: drawn %t, want %t", x, y, !dark, dark)
			}
		}
	}
}
