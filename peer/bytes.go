package peer

import "encoding/binary"

func putUint64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func getUint64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
