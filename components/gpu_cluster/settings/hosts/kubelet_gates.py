"""Feature gates that Kubernetes removed; a kubelet with a removed feature gate does not start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

REMOVED: Mapping[int, frozenset[str]] = MappingProxyType(
    {
        35: frozenset(
            {
                *("AllowServiceLBStatusOnNonLB", "CronJobsScheduledAnnotation"),
                *("LoadBalancerIPMode", "PodIndexLabel", "ProbeHostPodSecurityStandards"),
                *("SizeMemoryBackedVolumes", "StatefulSetAutoDeletePVC"),
                *("StrictCostEnforcementForVAP", "StrictCostEnforcementForWebhooks"),
                "UserNamespacesPodSecurityStandards",
            }
        ),
        36: frozenset(
            {
                *("CSIMigrationPortworx", "HonorPVReclaimPolicy"),
                *("InPlacePodVerticalScalingAllocatedStatus", "InTreePluginPortworxUnregister"),
                *("MemoryManager", "ServiceTrafficDistribution", "TopologyAwareHints"),
                *("StructuredAuthorizationConfiguration", "WatchFromStorageWithoutResourceVersion"),
            }
        ),
        37: frozenset(
            {
                *("APIServerTracing", "AnonymousAuthConfigurableEndpoints", "AnyVolumeDataSource"),
                *("AuthorizeNodeWithSelectors", "AuthorizeWithSelectors", "BtreeWatchCache"),
                *("ConsistentListFromCache", "GangScheduling", "JobBackoffLimitPerIndex"),
                *("JobPodReplacementPolicy", "JobSuccessPolicy", "LogarithmicScaleDown"),
                *("OrderedNamespaceDeletion", "PodLifecycleSleepAction"),
                *("PodLifecycleSleepActionAllowZero", "PreventStaticPodAPIReferences"),
                *("RelaxedDNSSearchValidation", "ResilientWatchCacheInitialization"),
                *("RetryGenerateName", "SchedulerQueueingHints", "SidecarContainers"),
                *("StreamingCollectionEncodingToJSON", "StreamingCollectionEncodingToProtobuf"),
                *("StructuredAuthenticationConfiguration", "WorkloadAwarePreemption"),
            }
        ),
    }
)
"""Feature gates by the minor version of Kubernetes that removed them.

Source: kubernetes and its apiserver v1.34.4, v1.35.4, v1.36.3 and v1.37.2,
pkg/features/kube_features.go.
"""


def removed(gates: Iterable[str], minor: int) -> list[str]:
    """Return the given feature gates that are removed from a minor version of the kubelet."""
    gone = frozenset().union(*(names for since, names in REMOVED.items() if since <= minor))
    return sorted(gone.intersection(gates))
