"""General operations knowledge, by the kind of thing that is in trouble: never by alert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.sim._words import stems

if TYPE_CHECKING:
    from regauge.sim._alert_facts import AlertFacts

__all__ = ["Resource", "resources_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What to look at and what to do for one kind of thing.

    Attributes:
        words: The words, comma by comma, that name it in an alert.
        consequence: What its trouble means for users; ends in a full stop.
        commands: How to look at it; `{label}` stands for a label of the alert.
        causes: Usual reasons, as short phrases.
        remedies: What usually helps, as imperatives.
    """

    words: str
    consequence: str
    commands: tuple[str, ...]
    causes: tuple[str, ...]
    remedies: tuple[str, ...]


_RESOURCES: Final = (
    Resource(
        words="certificate, tls, expiration, renewal",
        consequence="Once the certificate has expired, its clients are refused and the component loses its connections.",
        commands=(
            "kubectl get csr",
            "openssl x509 -noout -enddate -in <certificate file>",
            "journalctl -u kubelet --since -1h | grep -i cert",
        ),
        causes=(
            "automatic rotation is off or failing",
            "a signing request waits for approval",
            "a kubeconfig was issued long ago and never renewed",
        ),
        remedies=(
            "approve pending signing requests with `kubectl certificate approve <csr>`",
            "renew the certificate and restart its client",
            "turn rotation on, so that it renews by itself",
        ),
    ),
    Resource(
        words="filesystem, disk, inode, space, volume, persistentvolume, raid, device, io",
        consequence="Writes fail once it is full or gone; databases stop, pods are evicted and logs are lost.",
        commands=(
            "df -h && df -i",
            "du -xh --max-depth=2 {mountpoint} | sort -h | tail",
            "lsblk; cat /proc/mdstat; dmesg | tail -50",
            "kubectl -n {namespace} get pvc,pv",
        ),
        causes=(
            "logs, images or temporary files that nobody removes",
            "data that grows faster than planned",
            "a disk or its controller that is failing",
        ),
        remedies=(
            "remove or rotate old logs, unused images and temporary files",
            "grow the volume or the claim, if its storage class allows expansion",
            "replace a failing disk and wait until the array is rebuilt",
            "move data that may live elsewhere",
        ),
    ),
    Resource(
        words="network, interface, receive, transmit, bonding, flapping, conntrack, proxy",
        consequence="Packets are lost or delayed, so services time out and pods on the node look unhealthy.",
        commands=(
            "ip -s link show {device}",
            "ethtool -S {device} | grep -iE 'err|drop'",
            "dmesg | grep -i {device}",
        ),
        causes=(
            "a bad cable, port or transceiver",
            "a driver or firmware fault",
            "a connection table or queue that is too small",
        ),
        remedies=(
            "drain the node and move its workload",
            "replace the cable or port, or set speed and duplex",
            "raise the limit that is exhausted, for example `net.netfilter.nf_conntrack_max`",
        ),
    ),
    Resource(
        words="clock, ntp, skew, synchronising",
        consequence="Certificates, logs, leases and metrics that compare times become wrong.",
        commands=(
            "timedatectl status",
            "chronyc tracking; chronyc sources -v",
            "systemctl status chronyd ntpd systemd-timesyncd",
        ),
        causes=(
            "the time service is stopped",
            "its servers cannot be reached",
            "the host was paused or migrated",
        ),
        remedies=(
            "restart the time service",
            "let the host reach its NTP servers",
            "step the clock once with `chronyc makestep`",
        ),
    ),
    Resource(
        words="config, configuration, reload, reloader, sidecar",
        consequence="The component keeps running with its last good configuration, so recent changes have no effect, and a restart may fail.",
        commands=(
            "kubectl -n {namespace} logs {pod} --all-containers --tail=200 | grep -iE 'error|reload'",
            "amtool check-config <file> or promtool check config <file>",
            "kubectl -n {namespace} get secret,configmap",
        ),
        causes=(
            "a syntax error or an unknown field in the newest change",
            "a secret or file that the configuration refers to is missing",
            "replicas that did not all receive the change",
        ),
        remedies=(
            "revert the last change, or correct what the log names",
            "check it with the component's own checker before it is applied",
            "reload and watch that every replica reports success",
        ),
    ),
    Resource(
        words="etcd, leader, quorum, member, peers, fsync",
        consequence="A cluster that has lost members can lose its quorum: then nothing can be written any more.",
        commands=(
            "kubectl -n {namespace} get pods -o wide",
            "etcdctl endpoint status --cluster -w table",
            "kubectl -n {namespace} logs {pod} --tail=200",
        ),
        causes=(
            "slow or full disks",
            "a network partition between the members",
            "a member that was removed or lost its data",
        ),
        remedies=(
            "bring the missing member back, or replace it",
            "repair the network between the members",
            "move the members to faster disks",
        ),
    ),
    Resource(
        words="job, cronjob",
        consequence="The work of the job is not done, and later runs may pile up behind it.",
        commands=(
            "kubectl -n {namespace} describe job {job_name}",
            "kubectl -n {namespace} logs job/{job_name} --tail=200",
            "kubectl -n {namespace} get pods --selector=job-name={job_name}",
        ),
        causes=(
            "the program ends with an error",
            "it runs longer than its deadline",
            "it waits for something that never comes",
        ),
        remedies=(
            "correct the cause and start the job again",
            "raise its limits or its deadline",
            "delete the failed job, once it is understood, so that the alert clears",
        ),
    ),
    Resource(
        words="hpa, horizontalpodautoscaler, replicas",
        consequence="The service cannot take more load than its replicas allow and becomes slow or refuses requests.",
        commands=(
            "kubectl -n {namespace} describe hpa {horizontalpodautoscaler}",
            "kubectl -n {namespace} top pods",
            "kubectl describe nodes | grep -A5 'Allocated resources'",
        ),
        causes=(
            "more load than the maximum was planned for",
            "a limit of replicas that is too low",
            "no room on the nodes for further pods",
        ),
        remedies=(
            "raise the maximum number of replicas",
            "add nodes",
            "find out whether the load is legitimate and shed what is not",
        ),
    ),
    Resource(
        words="quota, overcommit, resourcequota",
        consequence="New pods may be refused, and after the loss of a node not every pod finds a place.",
        commands=(
            "kubectl -n {namespace} describe resourcequota",
            "kubectl top pods -A --sort-by=cpu | head -20",
            "kubectl describe nodes | grep -A8 'Allocated resources'",
        ),
        causes=(
            "requests that are far above real use",
            "growth that nobody planned for",
            "a quota that no longer fits the namespace",
        ),
        remedies=(
            "lower requests that are never used",
            "raise the quota or add nodes",
            "remove workloads that nobody needs",
        ),
    ),
    Resource(
        words="cpu, throttling, load, saturation, memory, page",
        consequence="Processes become slow; with too little memory the kernel ends some of them.",
        commands=(
            "kubectl top nodes; kubectl top pods -A --sort-by=memory | head",
            "kubectl -n {namespace} describe pod {pod} | grep -A6 -i limits",
            "uptime; free -m; vmstat 1 5",
        ),
        causes=(
            "limits that are too tight for the load",
            "a leak or a runaway loop",
            "too many pods on one host",
        ),
        remedies=(
            "raise or remove the limit of the container",
            "move pods to other hosts or add hosts",
            "restart a process that leaks, and open a bug",
        ),
    ),
    Resource(
        words="deployment, rollout, generation, stateful, daemon, set, statefulset, daemonset, replicaset",
        consequence="The service runs with fewer or older replicas than wanted, and a further failure may take it down.",
        commands=(
            "kubectl -n {namespace} rollout status {workload}",
            "kubectl -n {namespace} describe {workload}",
            "kubectl -n {namespace} get events --sort-by=.lastTimestamp | tail -20",
        ),
        causes=(
            "new pods that do not become ready",
            "an image that cannot be pulled",
            "too few resources or a node selector that fits no node",
        ),
        remedies=(
            "correct the cause and roll out again",
            "go back with `kubectl -n {namespace} rollout undo {workload}`",
            "add room on the nodes",
        ),
    ),
    Resource(
        words="pod, container, crash, looping, pdb",
        consequence="The service behind the pod is degraded or down, and it gets no traffic while it is not ready.",
        commands=(
            "kubectl -n {namespace} describe pod {pod}",
            "kubectl -n {namespace} logs {pod} -c {container} --previous --tail=200",
            "kubectl -n {namespace} get events --field-selector involvedObject.name={pod}",
        ),
        causes=(
            "the program fails at start, or its probe does",
            "a configuration, secret or volume is missing",
            "too little memory, so that it is killed",
            "an image that cannot be pulled",
        ),
        remedies=(
            "correct what the last log lines name",
            "roll back the last release",
            "raise requests and limits when it was killed for memory",
            "talk to the team that owns the workload",
        ),
    ),
    Resource(
        words="node, kubelet, eviction, pressure",
        consequence="Pods on the node may stop being updated, may be evicted, and are started elsewhere if there is room.",
        commands=(
            "kubectl get nodes -o wide; kubectl describe node {node}",
            "journalctl -u kubelet --since -30min | tail -100",
            "kubectl get pods -A --field-selector spec.nodeName={node}",
        ),
        causes=(
            "the kubelet or the container runtime has stopped",
            "pressure on memory, disk or process ids",
            "the network to the control plane is cut",
            "the machine is gone",
        ),
        remedies=(
            "restart the kubelet or the runtime",
            "drain the node with `kubectl drain {node} --ignore-daemonsets`, then reboot or replace it",
            "free memory or disk when a pressure condition is active",
        ),
    ),
    Resource(
        words="api, apiserver, scheduler, controller, manager, budget, aggregated, kubeapi",
        consequence="The control plane is slow or unavailable: running pods go on, but nothing new is started, healed or changed.",
        commands=(
            "kubectl get --raw='/readyz?verbose'",
            "kubectl -n kube-system get pods -o wide",
            "kubectl get apiservices | grep -v True",
            "kubectl -n kube-system logs <control plane pod> --tail=200",
        ),
        causes=(
            "the component crashed or lost its storage",
            "overload by one client",
            "a certificate that has expired",
            "a firewall or load balancer that lets nothing through",
        ),
        remedies=(
            "restart the component on its control plane node",
            "slow down or stop the client that floods it",
            "go back to the last version or flag that worked",
        ),
    ),
    Resource(
        words="operator, reconcile, sync, rejected, watch, list",
        consequence="Changes to its custom resources are not applied, so the system slowly drifts from what was asked for.",
        commands=(
            "kubectl -n {namespace} logs deploy/prometheus-operator --tail=200",
            "kubectl -n {namespace} get events --sort-by=.lastTimestamp | tail -20",
            "kubectl auth can-i --list --as=system:serviceaccount:{namespace}:<service account>",
        ),
        causes=(
            "an invalid resource",
            "a permission that is missing",
            "an API server that does not answer",
        ),
        remedies=(
            "correct or delete the resource that the log names",
            "give the service account the permission it lacks",
            "restart the operator once the API server is healthy",
        ),
    ),
    Resource(
        words="alertmanager, notification, alerts, send",
        consequence="Alerts may not reach anybody, so other failures can go unnoticed.",
        commands=(
            "kubectl -n {namespace} logs {pod} --tail=200",
            "amtool alert query --alertmanager.url=http://<alertmanager>:9093",
            "amtool config routes show --alertmanager.url=http://<alertmanager>:9093",
        ),
        causes=(
            "a receiver that refuses or cannot be reached",
            "a wrong address or credential",
            "members that do not see each other",
        ),
        remedies=(
            "correct the address or credential of the receiver",
            "let the members reach each other on the cluster port",
            "use a second way to notify until it works",
        ),
    ),
    Resource(
        words="prometheus, tsdb, rule, scrape, remote, storage, samples, timestamps, target, shard, query, metrics, state",
        consequence="Metrics are missing, late or wrong, so dashboards and other alerts cannot be trusted.",
        commands=(
            "kubectl -n {namespace} logs {pod} -c prometheus --tail=200",
            "curl -s http://<prometheus>:9090/api/v1/targets | jq '.data.activeTargets[] | select(.health!=\"up\")'",
            "curl -s http://<prometheus>:9090/api/v1/status/tsdb | jq .data.headStats",
        ),
        causes=(
            "too many series for its memory or disk",
            "a target, rule or remote endpoint that is slow or broken",
            "a network policy that blocks it",
            "two configurations that produce the same series",
        ),
        remedies=(
            "correct or drop the target, rule or endpoint that fails",
            "give it more memory, disk or shards",
            "drop labels that nobody needs",
        ),
    ),
)
_GENERAL: Final = Resource(
    words="",
    consequence="The service that the alert watches may be degraded until the cause is found.",
    commands=("kubectl get events -A --sort-by=.lastTimestamp | tail -30", "kubectl get pods -A | grep -vE 'Running|Completed'"),
    causes=("a recent change", "a dependency that is slow or down", "more load than usual"),
    remedies=("revert the last change if it fits in time", "restart the affected process once its state has been kept", "call the team that owns the service"),
)  # fmt: skip

_NAMED_SCORE: Final = 1.0
_LABEL_SCORE: Final = 0.4


def resources_of(facts: AlertFacts) -> tuple[Resource, ...]:
    """The kinds of thing that an alert is about, the most likely first; never empty."""
    weights: dict[str, float] = {}
    for text, weight in ((facts.subject, 3.0), (facts.summary, 1.5), (facts.description, 0.6), (" ".join(facts.metrics), 0.6), (" ".join(facts.labels), 0.4)):  # fmt: skip  # noqa: E501
        for word in stems(text):
            weights[word] = max(weights.get(word, 0.0), weight)
    scored: list[tuple[float, int]] = []
    for index, resource in enumerate(_RESOURCES):
        score = sum(weights.get(word, 0.0) for word in set(stems(resource.words.replace(",", " "))))
        scored.append((-score, index))
    scored.sort()
    # A word of the name or the summary names the thing; else a label of the alert has to do.
    floor = _NAMED_SCORE if -scored[0][0] > _NAMED_SCORE else _LABEL_SCORE
    return (*(_RESOURCES[index] for score, index in scored[:2] if -score >= floor), _GENERAL)
