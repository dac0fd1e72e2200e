// Answers of Kubernetes' own code: it reads one question in JSON a line, and prints one answer a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	resources "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// question has exactly one field set.
type question struct {
	Quantity   *string
	Name       *string
	Pod        *v1.Pod
	Toleration *struct {
		Tolerations []v1.Toleration
		Taint       v1.Taint
	}
	Selection *struct {
		Pod  v1.Pod
		Node v1.Node
	}
}

func main() {
	klog.SetLogger(klog.Logger{})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", err, lines.Text())
			os.Exit(1)
		}
		answer, err := json.Marshal(answered(asked))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(answer))
	}
}

func answered(asked question) any {
	switch {
	case asked.Quantity != nil:
		return milli(*asked.Quantity)
	case asked.Name != nil:
		return valid(*asked.Name)
	case asked.Pod != nil:
		return requests(asked.Pod)
	case asked.Toleration != nil:
		given := asked.Toleration
		return scheduling.TolerationsTolerateTaint(klog.Logger{}, given.Tolerations, &given.Taint, true)
	default:
		given := asked.Selection
		matches, err := nodeaffinity.GetRequiredNodeAffinity(&given.Pod).Match(&given.Node)
		return matches && err == nil
	}
}

// milli returns the low 64 bits of the amount in thousandths, rounded up as in the defaults of the
// API server, and the sign; nil if the text is no quantity.
func milli(text string) any {
	quantity, err := resource.ParseQuantity(strings.TrimSpace(text))
	if err != nil {
		return nil
	}
	quantity.RoundUp(resource.Milli)
	return [2]int64{quantity.MilliValue(), int64(quantity.Sign())}
}

// valid tells as what a text is valid: DNS label, DNS subdomain, label value, label key.
func valid(text string) [4]bool {
	return [4]bool{
		len(validation.IsDNS1123Label(text)) == 0,
		len(validation.IsDNS1123Subdomain(text)) == 0,
		len(validation.IsValidLabelValue(text)) == 0,
		len(validation.IsQualifiedName(text)) == 0,
	}
}

// requests returns what the scheduler counts for a pod, in thousandths.
func requests(pod *v1.Pod) map[v1.ResourceName]int64 {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			setRequests(&containers[i].Resources)
		}
	}
	counted := resources.PodRequests(pod, resources.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	answer := map[v1.ResourceName]int64{}
	for name, quantity := range counted {
		answer[name] = quantity.MilliValue()
	}
	return answer
}

// setRequests does what the API server does when a pod is created: a limit alone is the request.
func setRequests(given *v1.ResourceRequirements) {
	for name, limit := range given.Limits {
		if _, found := given.Requests[name]; !found {
			if given.Requests == nil {
				given.Requests = v1.ResourceList{}
			}
			given.Requests[name] = limit
		}
	}
}
