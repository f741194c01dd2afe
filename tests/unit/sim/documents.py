"""Alerts and incident reports written for these tests, in shapes that no prompt speaks of."""

from __future__ import annotations

PAGERDUTY = """{
  "incident": {
    "id": "Q2ABC",
    "title": "Checkout API returns 503",
    "urgency": "high",
    "created_at": "2024-11-05T08:12:00Z",
    "resolved_at": "2024-11-05T09:47:30Z",
    "service": {"summary": "checkout-api"},
    "impact": "Customers in the EU could not pay by card.",
    "time_to_repair": "1h 35m",
    "body": {"details": "The connection pool to the payments database was exhausted after a deploy."}
  }
}"""

SLACK = """# inc-2291: search returns no results

14:02 @maria: alerts for search-index started firing
14:05 @tom: declared an incident
14:31 @maria: rolled back the index job, results are coming back
14:40 @tom: resolved, monitoring for the rest of the day

Impact: about 12% of shoppers saw an empty result page
Time to repair: 29 min
Date: 2025-02-14
"""

EMAIL = """Subject: Post-incident note: mail relay outage on 3 March 2025

Hi all,

the mail relay stopped accepting connections at 3 March 2025 06:10 because its disk was full. About four
hundred newsletters were delayed. The fault was first detected on 3 March 2025 at 06:25 by the queue monitor.
Petra cleared the spool and the incident was resolved on 3 March 2025 at 07:55. It took 1 hour 30 minutes to repair.

Regards,
Ops
"""

GERMAN = """# Störung Anmeldung

- Beginn: 12.03.2024 14:05 Uhr
- Behoben: 12.03.2024 15:20 Uhr
- Auswirkung: Mitarbeitende konnten sich nicht anmelden.
- Dauer der Behebung: 1h 15m
"""

# name, expression, duration, summary, description, severity by the definitions of the prompt.
ALERTS = (
    ("MetricsGatewayDown", 'absent(up{job="gateway"} == 1)', "15m", "Target disappeared from Prometheus target discovery.", "Gateway has disappeared from Prometheus target discovery.", "critical"),
    ("BrokerClusterDown", "count(up == 0) / count(up) >= 0.5", "5m", "Half or more of the brokers in the cluster are down.", "{{ $value }} of instances are down.", "critical"),
    ("VolumeAlmostFull", "vol_free_bytes / vol_size_bytes * 100 < 3", "30m", "Volume has less than 3% space left.", "Volume on {{ $labels.device }} has only {{ $value }}% available space left.", "critical"),
    ("VolumeLow", "vol_free_bytes / vol_size_bytes * 100 < 5", "30m", "Volume has less than 5% space left.", "Volume on {{ $labels.device }} has only {{ $value }}% available space left.", "warning"),
    ("IngressCertificateExpiry", "ingress_cert_ttl_seconds < 86400", "5m", "Certificate is about to expire.", "The certificate of {{ $labels.host }} expires in less than 24 hours.", "critical"),
    ("IngressCertificateExpirySoon", "ingress_cert_ttl_seconds < 604800", "5m", "Certificate is about to expire.", "The certificate of {{ $labels.host }} expires in less than 7 days.", "warning"),
    ("RelayConfigBroken", "relay_config_last_load_success == 0", "10m", "Configuration failed to load.", "The relay {{ $labels.pod }} failed to load its configuration.", "critical"),
    ("LedgerArrayDegraded", "md_degraded > 0", "15m", "RAID array is degraded.", "Array {{ $labels.device }} is degraded and spare drives are insufficient.", "critical"),
    ("CachePodNotReady", "cache_pod_ready == 0", "15m", "Pod has been in a non-ready state.", "Pod {{ $labels.pod }} is not ready.", "warning"),
    ("EdgeNodeUnreachable", "edge_node_up == 0", "15m", "Edge node is unreachable.", "{{ $labels.node }} is unreachable.", "warning"),
    ("NightlyJobFailed", "job_failed > 0", "15m", "Job failed to complete.", "Job {{ $labels.job_name }} failed to complete.", "warning"),
    ("RolloutStuckInStaging", "rollout_progress == 0", "15m", "Rollout is stuck.", "Rollout of {{ $labels.deployment }} is not progressing.", "warning"),
    ("UplinkFlapping", "changes(uplink_up[5m]) > 2", "2m", "Network interface is often changing its status.", "Interface {{ $labels.device }} is flapping.", "warning"),
    ("ReplicasMissing", "replicas_ready != replicas_wanted", "15m", "Replicas do not match the wanted number.", "{{ $labels.deployment }} has a replica mismatch.", "warning"),
    ("TenantQuotaFull", "quota_used / quota_hard > 0.99", "15m", "Namespace quota is fully used.", "Namespace {{ $labels.namespace }} uses all of its quota.", "info"),
    ("BatchCpuThrottled", "throttled_periods / periods > 0.25", "15m", "Elevated CPU throttling.", "{{ $value }} throttling of CPU in {{ $labels.container }}.", "info"),
    ("SpotNodeEvicts", "evictions > 0", "0s", "Node is evicting pods.", "Node {{ $labels.node }} evicts pods.", "info"),
    ("WorkerNodePressure", "node_condition > 0", "10m", "Node has an active condition.", "{{ $labels.node }} has active condition {{ $labels.condition }}.", "info"),
)  # fmt: skip
