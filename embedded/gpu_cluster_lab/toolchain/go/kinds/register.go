// Part of a copy of the Go SDK of Pulumi's Kubernetes plugin that embedded/gpu_cluster_lab/toolchain/kinds.py makes.
package v2

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

// An object of any kind: who registers it wants its URN and nothing else.
type object struct{ pulumi.CustomResourceState }

// RegisterResource registers an object under the token of its kind.
func RegisterResource(
	ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption,
) (pulumi.CustomResource, error) {
	group := apiVersion
	if group == "v1" {
		group = "core/v1"
	}
	var made object
	token := "kubernetes:" + group + ":" + kind
	if err := ctx.RegisterResource(token, name, props, &made, opts...); err != nil {
		return nil, err
	}
	return &made, nil
}
