// Package qr draws a short text as a code for a phone.
package qr

import (
	"strings"

	"rsc.io/qr"
)

// quiet is the light border that readers need, in modules.
const quiet = 4

// Rows returns the modules of text's code and of the border around it, true for dark ones. Nil: text is too long for a
// code.
func Rows(text string) [][]bool {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil
	}
	rows := make([][]bool, code.Size+2*quiet)
	for y := range rows {
		rows[y] = make([]bool, len(rows))
		for x := range rows[y] {
			rows[y][x] = code.Black(x-quiet, y-quiet) // outside of the code it is light
		}
	}
	return rows
}

// Blocks returns text's code for a terminal with light letters on a dark background, two rows to a line. It is empty if
// text is too long for a code.
func Blocks(text string) string {
	rows := Rows(text)
	var b strings.Builder
	for y := 0; y < len(rows); y += 2 {
		for x, dark := range rows[y] {
			below := y+1 == len(rows) || rows[y+1][x] // there is no row below the last
			switch {
			case dark && below:
				b.WriteByte(' ')
			case dark:
				b.WriteString("▄")
			case below:
				b.WriteString("▀")
			default:
				b.WriteString("█")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
