// Answer of HAMi's own webhook or scheduler: it reads one question in JSON, and prints the answer.
// It is built inside HAMi's module, whose packages it calls as cmd/scheduler does; a fake client holds the objects.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/device/nvidia"
	"github.com/Project-HAMi/HAMi/pkg/scheduler"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/config"
	"github.com/Project-HAMi/HAMi/pkg/util/client"
)

// question holds the cluster, and the pod that is admitted if Admit is set, or else placed.
type question struct {
	Nodes  []v1.Node
	Pods   []v1.Pod
	Quotas []v1.ResourceQuota
	Pod    *v1.Pod
	Admit  bool
}

type answer struct {
	Denied  string            `json:"denied,omitempty"`
	Pod     json.RawMessage   `json:"pod,omitempty"`
	Node    string            `json:"node"`
	Shares  string            `json:"shares"`
	Reasons map[string]string `json:"reasons"`
}

func main() {
	klog.SetLogger(klog.Logger{})
	// Values and flags of HAMi's chart; the runtime class is the one that a stack file may set.
	config.SchedulerName = "hami-scheduler"
	config.NodeSchedulerPolicy = "binpack"
	config.ForceOverwriteDefaultScheduler = true
	device.GPUSchedulerPolicy = "spread"
	chart := &config.Config{NvidiaConfig: nvidia.NvidiaConfig{
		ResourceCountName:            "nvidia.com/gpu",
		ResourceMemoryName:           "nvidia.com/gpumem",
		ResourceMemoryPercentageName: "nvidia.com/gpumem-percentage",
		ResourceCoreName:             "nvidia.com/gpucores",
		ResourcePriority:             "nvidia.com/priority",
		DefaultGPUNum:                1,
		MemoryFactor:                 1,
		RuntimeClassName:             "nvidia",
	}}
	if err := config.InitDevicesWithConfig(chart); err != nil {
		fail(err)
	}
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	given, err := answered(asked)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(given); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func answered(asked question) (*answer, error) {
	objects := []runtime.Object{asked.Pod.DeepCopy()}
	names := []string{}
	for i := range asked.Nodes {
		objects = append(objects, &asked.Nodes[i])
		names = append(names, asked.Nodes[i].Name)
	}
	for i := range asked.Pods {
		objects = append(objects, &asked.Pods[i])
	}
	for i := range asked.Quotas {
		objects = append(objects, &asked.Quotas[i])
	}
	client.KubeClient = fake.NewClientset(objects...)
	hami := scheduler.NewScheduler()
	if err := hami.Start(); err != nil {
		return nil, err
	}
	defer hami.Stop()
	go hami.RegisterFromNodeAnnotations()
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if len(asked.Nodes) > 0 && !hami.WaitForCacheSync(limit) {
		return nil, fmt.Errorf("no node was registered")
	}
	if asked.Admit {
		return admitted(asked.Pod)
	}
	result, err := hami.Filter(extenderv1.ExtenderArgs{Pod: asked.Pod, NodeNames: &names})
	if err != nil {
		return nil, err
	}
	given := &answer{Reasons: result.FailedNodes}
	if result.NodeNames != nil && len(*result.NodeNames) == 1 {
		pod, err := client.KubeClient.CoreV1().Pods(asked.Pod.Namespace).Get(limit, asked.Pod.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		given.Node = (*result.NodeNames)[0]
		given.Shares = pod.Annotations["hami.io/vgpu-devices-allocated"]
	}
	return given, nil
}

func admitted(pod *v1.Pod) (*answer, error) {
	hook, err := scheduler.NewWebHook()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	response := hook.Handler.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: pod.Namespace, Name: pod.Name, Object: runtime.RawExtension{Raw: raw},
	}})
	if !response.Allowed {
		return &answer{Denied: response.Result.Message}, nil
	}
	patch, err := json.Marshal(response.Patches)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if len(operations) > 0 {
		raw, err = operations.Apply(raw)
	}
	return &answer{Pod: raw}, err
}
