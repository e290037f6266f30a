// Package packaging holds what brings hermes-connector onto a machine: the systemd unit, which the program knows too, and
// beside it what only releases need: the image, the packages and what they install.
package packaging

import _ "embed"

// Unit is the system unit of the packages, which start /usr/bin/hermes-connector as the user hermes-connector.
//
//go:embed hermes-connector.service
var Unit string
