package durable

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// A put request is two fields, so the bytes are written here, instead of depending on
// etcd's client for them: PutRequest{key: 1, value: 2} of etcd's rpc.proto.

func appendField(b []byte, number protowire.Number, value []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendBytes(b, value)
}

// rawCodec hands gRPC messages through as bytes. Its name is what etcd expects.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("marshal %T: only bytes are handed through", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("unmarshal %T: only bytes are handed through", v)
	}
	*b = data.Materialize()
	return nil
}
