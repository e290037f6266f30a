package qr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// finder is the square that a reader looks for in three corners.
var finder = []string{"#######", "#.....#", "#.###.#", "#.###.#", "#.###.#", "#.....#", "#######"}

func TestRows(t *testing.T) {
	rows := Rows("https://t.me/our_bot?start=KQ29F4M7X")
	n := len(rows)
	if n < 21+2*quiet {
		t.Fatalf("%d rows", n)
	}
	for name, at := range map[string][2]int{"left top": {quiet, quiet}, "right top": {n - quiet - 7, quiet}, "left bottom": {quiet, n - quiet - 7}} {
		var got []string
		for y := range finder {
			line := ""
			for x := range finder {
				line += map[bool]string{true: "#", false: "."}[rows[at[1]+y][at[0]+x]]
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(finder, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for i := range n {
		for _, j := range []int{0, 1, 2, 3, n - 4, n - 3, n - 2, n - 1} {
			if rows[i][j] || rows[j][i] {
				t.Fatalf("the border is dark at %d, %d", i, j)
			}
		}
	}
}

func TestBlocks(t *testing.T) {
	rows, lines := Rows("x"), strings.Split(strings.TrimSuffix(Blocks("x"), "\n"), "\n")
	if len(lines) != (len(rows)+1)/2 {
		t.Fatalf("%d lines of %d rows", len(lines), len(rows))
	}
	for y := range rows {
		for x, r := range []rune(lines[y/2]) {
			light := r == '█' || r == '▀' && y%2 == 0 || r == '▄' && y%2 == 1
			if light == rows[y][x] {
				t.Fatalf("row %d, column %d: %q, dark: %t", y, x, r, rows[y][x])
			}
		}
	}
}

func TestTooLong(t *testing.T) {
	if long := strings.Repeat("x", 3000); Rows(long) != nil || Blocks(long) != "" {
		t.Error("3,000 letters became a code")
	}
}
