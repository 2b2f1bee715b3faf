package api

var podKind = Kind{Name: "Pod", Plural: "pods", Namespaced: true}
