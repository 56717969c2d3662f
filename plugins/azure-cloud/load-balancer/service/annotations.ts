import { maxDrainSeconds } from "../../config/schema-cluster.ts";
import { limits } from "../model/limits.ts";
import { type Annotation, flagRow, frontend, group, name, orEmpty, prefix, row } from "./annotation-rows.ts";
import {
  address,
  addresses,
  commaList,
  integer,
  matching,
  spacedAddresses,
  spaceList,
  spaceListWithAll,
  text,
  trimmedFlag,
  verbatim,
  word,
  words,
} from "./readers.ts";

const label = matching(/^[a-z][a-z0-9-]{0,61}[a-z0-9]$/iu, "2 to 63 letters, digits and `-`, a letter first", 63);
const dnsLabel = orEmpty(label);

/** HTTP paths of probes. */
const path = verbatim(2048);
const protocol = word(["Tcp", "Http", "Https"], "Tcp");
const protocols = { values: "`tcp`, `http`, `https`", invalid: "ignored, with a warning" as const };
const interval = { values: "seconds, at least 5", fallback: "5" };
const threshold = { values: "integer, at least 2", fallback: "2" };
const ranges = { values: "CIDRs, comma-separated", invalid: "traffic denied" as const };
/** As many as fit into a security group: a single rule has all ranges, so each is counted once. */
const rangeList = commaList({ length: 128 * 1024, items: limits.prefixesPerSecurityGroup });
const maxInt32 = 2 ** 31 - 1;

/**
 * Every annotation of a Service that this cloud reads. Parser, validation, reference page (ANNOTATIONS.md) and tests are
 * made from this table. Source: cloud-provider-azure `pkg/consts` and `site/content/en/topics/loadbalancer.md`.
 */
export const annotations = {
  internal: row(
    "azure-load-balancer-internal",
    verbatim(80),
    "Internal load balancer in a subnet of the cluster's virtual network.",
    {
      values: "`true`, exactly",
      fallback: "`false`",
      invalid: "ignored, with a warning",
    },
  ),
  internalSubnet: name(
    "azure-load-balancer-internal-subnet",
    "Subnet of the internal frontend; part of the names of frontends and rules. Ignored by external load balancers.",
    { values: "subnet name", fallback: "`subnetName`" },
  ),
  mode: row(
    "azure-load-balancer-mode",
    text(1024),
    "Scale set or availability set whose basic load balancer is used; `__auto__` selects the least used. Ignored with the standard SKU, with a warning event.",
    {
      values: "name, `__auto__`",
    },
  ),
  configurations: row(
    "azure-load-balancer-configurations",
    commaList(),
    "Names of `multipleStandardLoadBalancerConfigurations` that may be selected. The key may be in any case.",
    {
      values: "names, comma-separated",
    },
  ),
  resourceGroup: group(
    "azure-load-balancer-resource-group",
    "Resource group of the Service's public IPs.",
    "`resourceGroup`",
  ),
  ipv4: row(
    "azure-load-balancer-ipv4",
    address("IPv4"),
    "IPv4 address of the frontend; overrides `spec.loadBalancerIP`. External: the address of an existing public IP.",
    {
      values: "IPv4 address",
    },
  ),
  ipv6: row(
    "azure-load-balancer-ipv6",
    address("IPv6"),
    "IPv6 address of the frontend; overrides `spec.loadBalancerIP`.",
    {
      values: "IPv6 address",
    },
  ),
  dnsLabel: row("azure-dns-label-name", dnsLabel, "DNS label of the public IP. An empty value removes the label.", {
    values: "DNS label or empty",
  }),
  pipName: name("azure-pip-name", "Existing public IP to use."),
  pipNameIPv6: name("azure-pip-name-ipv6", "Existing IPv6 public IP to use."),
  pipPrefix: prefix("azure-pip-prefix-id", "Prefix from which the public IP is created; part of its name."),
  pipPrefixIPv6: prefix(
    "azure-pip-prefix-id-ipv6",
    "Prefix from which the IPv6 public IP is created; part of its name.",
  ),
  pipTags: row(
    "azure-pip-tags",
    text(16384),
    "Tags of the public IP, over those of the cloud config. Entries that are not `key=value` are skipped.",
    {
      values: "`a=b,c=d`",
    },
  ),
  pipIPTags: row(
    "azure-pip-ip-tags",
    verbatim(16384),
    "IP tags of the public IP; an empty value clears them. Entries that are not `type=tag` are skipped.",
    {
      values: "`Type=Tag,…`",
    },
  ),
  additionalPublicIPs: row(
    "azure-additional-public-ips",
    addresses,
    "Further addresses in the status and in security rules; they are not configured on the load balancer. Addresses of nodes, Pods and Services of the cluster are refused. No effect with `disableAdditionalPublicIPs` in the cloud config.",
    {
      values: "IP addresses, comma-separated, without spaces",
    },
  ),
  idleTimeout: row(
    "azure-load-balancer-tcp-idle-timeout",
    integer(4, 100),
    "Minutes until an idle TCP flow is closed.",
    {
      values: "integer, 4 to 100",
      fallback: "4",
    },
  ),
  drainSeconds: row(
    "azure-load-balancer-drain-seconds",
    integer(0, maxDrainSeconds),
    "Seconds from the moment that a node which is about to leave gets no new connections until it is removed from the pool; 0: removed at once. Services that share a pool get the longest time of them. Pool type `nodeIP` only.",
    { values: `integer, 0 to ${maxDrainSeconds}`, fallback: "`loadBalancerDrainTimeInSeconds`" },
  ),
  gatewayFrontend: frontend(
    "azure-load-balancer-gateway-frontend-id",
    "Frontend of a Gateway Load Balancer that all traffic of the Service's own frontends passes through; external standard load balancers only. An empty value ends it; without the annotation, a setting made in Azure stays.",
  ),
  disableTcpReset: flagRow("azure-load-balancer-disable-tcp-reset", "Close idle flows without a TCP reset."),
  haPorts: flagRow(
    "azure-load-balancer-enable-high-availability-ports",
    "One rule for all ports and protocols; internal standard load balancers only.",
  ),
  disableFloatingIP: flagRow(
    "azure-disable-load-balancer-floating-ip",
    "Send traffic to node ports and node addresses instead of the frontend's.",
  ),
  disableSecurityRules: flagRow("azure-disable-load-balancer-nsg-rule", "Create no security rules for the Service."),
  probeProtocol: row(
    "azure-load-balancer-health-probe-protocol",
    protocol,
    "Protocol of the probes of ports without `appProtocol`.",
    {
      ...protocols,
      fallback: "`tcp`",
    },
  ),
  probeInterval: row(
    "azure-load-balancer-health-probe-interval",
    integer(5, maxInt32),
    "Seconds between probes. Times the number of probes, less than 120.",
    interval,
  ),
  probeThreshold: row(
    "azure-load-balancer-health-probe-num-of-probe",
    integer(2, maxInt32),
    "Failed probes until a node gets no traffic.",
    threshold,
  ),
  probePath: row("azure-load-balancer-health-probe-request-path", path, "Path of HTTP and HTTPS probes.", {
    values: "path",
    fallback: "`/`",
  }),
  allowedServiceTags: row(
    "azure-allowed-service-tags",
    words,
    "Service tags whose addresses may connect, in place of the Internet.",
    {
      values: "service tags, comma-separated",
    },
  ),
  allowedIPRanges: row(
    "azure-allowed-ip-ranges",
    rangeList,
    "Ranges that may connect, in place of the Internet.",
    ranges,
  ),
  sourceRanges: row(
    "load-balancer-source-ranges",
    rangeList,
    "As `azure-allowed-ip-ranges`, in addition to it.",
    ranges,
  ),
  denyAllExceptRanges: flagRow(
    "azure-deny-all-except-load-balancer-source-ranges",
    "Deny what no range of the Service allows, traffic inside the virtual network included.",
  ),
  plsCreate: row("azure-pls-create", trimmedFlag, "Create a private link service for the frontend.", {
    values: "`true`, `false`",
    fallback: "`false`",
    invalid: "ignored, with a warning",
  }),
  plsDeleteProtection: flagRow(
    "azure-pls-delete-protection",
    "Keep the private link service, and with it the frontend and the Service, while a private endpoint is connected with approval.",
  ),
  plsName: name("azure-pls-name", "Name of the private link service; cannot be changed later."),
  plsResourceGroup: group(
    "azure-pls-resource-group",
    "Resource group of the private link service.",
    "`privateLinkServiceResourceGroup`",
  ),
  plsSubnet: name("azure-pls-ip-configuration-subnet", "Subnet of the private link service.", {
    values: "subnet name",
    fallback: "the frontend's subnet",
  }),
  plsCount: row(
    "azure-pls-ip-configuration-ip-address-count",
    integer(1, limits.addressesPerPrivateLink),
    "Number of addresses of the private link service.",
    {
      values: "integer, 1 to 8",
      fallback: "1",
    },
  ),
  plsAddresses: row(
    "azure-pls-ip-configuration-ip-address",
    spacedAddresses,
    "Static addresses of the private link service; the first is the primary one.",
    {
      values: "IPv4 addresses, space-separated",
    },
  ),
  plsFqdns: row("azure-pls-fqdns", spaceList, "Domain names of the private link service.", {
    values: "domain names, space-separated",
  }),
  plsProxyProtocol: flagRow("azure-pls-proxy-protocol", "Prefix connections with the TCP proxy protocol v2."),
  plsVisibility: row("azure-pls-visibility", spaceList, "Subscriptions that see the private link service.", {
    values: "subscription ids, space-separated, or `*`",
  }),
  plsAutoApproval: row(
    "azure-pls-auto-approval",
    spaceListWithAll("approves the endpoints of every subscription that sees the private link service"),
    "Subscriptions whose endpoints are approved automatically. With `*`, every subscription that sees the service connects without a review; the Service gets a warning.",
    {
      values: "subscription ids, space-separated, or `*`",
    },
  ),
} as const satisfies Readonly<Record<string, Annotation<unknown>>>;

/** Annotations of one port; they override those of the Service. */
export const portAnnotations = {
  noRule: flagRow("port_<port>_no_lb_rule", "No rule and no probe for the port."),
  noProbe: flagRow("port_<port>_no_probe_rule", "A rule without a probe for the port."),
  probeProtocol: row(
    "port_<port>_health-probe_protocol",
    protocol,
    "Protocol of the port's probe; overrides `appProtocol`.",
    protocols,
  ),
  probePort: row(
    "port_<port>_health-probe_port",
    verbatim(80),
    "Port that is probed. The name or number of a port of the Service stands for its node port.",
    {
      values: "port name, integer 1 to 65535",
      fallback: "the port's node port",
    },
  ),
  probeInterval: row(
    "port_<port>_health-probe_interval",
    integer(5, maxInt32),
    "Seconds between probes of the port.",
    interval,
  ),
  probeThreshold: row(
    "port_<port>_health-probe_num-of-probe",
    integer(2, maxInt32),
    "Failed probes of the port until a node gets no traffic.",
    threshold,
  ),
  probePath: row("port_<port>_health-probe_request-path", path, "Path of the port's HTTP or HTTPS probe.", {
    values: "path",
  }),
} as const satisfies Readonly<Record<string, Annotation<unknown>>>;
