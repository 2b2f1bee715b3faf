package api

var machineKind = Kind{Name: "Machine", Plural: "machines"}
