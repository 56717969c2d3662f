/** Retries without the user: by a queue with a growing delay, after a fixed one, or as the controller does. */
type Retry = "growing" | "fixed" | "by its controller";

/** Meaning of a code, its remedy, and the retries of the host. */
type Row = readonly [meaning: string, remedy: string, retry?: Retry];

const nothing = "Nothing: the host handles it, and tries it again where that helps.";
const growing = ["Nothing: it is tried again, with a growing delay.", "growing"] as const;
const fixed = ["Nothing: it is tried again, after a fixed delay.", "fixed"] as const;
const byController = [
  "Nothing for a controller: it tries again by itself. Repeat a command.",
  "by its controller",
] as const;

/**
 * Every code of a `CodedError` of the host and its own plugins, by area. Types, `help errors`, the reference page and a
 * test are made from this table. An error reply of Azure has Azure's own code.
 */
export const errorTable = {
  "Command line and files": {
    AccessDenied: ["The cloud's credentials lack permissions.", "Grant what `check-credentials` lists."],
    BuildFailed: ["A file of a release cannot be generated.", "Correct the file or tool that the message names."],
    CheckFailed: ["The cloud config or a flag is invalid.", "Correct each listed problem."],
    CheckNotFound: ["The cloud plugin cannot check credentials.", "Check them with the cloud's own tools."],
    CommandNotInImage: ["The image does not contain a command for development.", "Run it from a clone."],
    FileUnreadable: ["A file is missing, unreadable or not a regular file.", "Correct the path or the permissions."],
    FolderNotUsable: ["A folder cannot be written, or is already in use.", "Name another folder, or empty this one."],
    InvalidArgument: ["A command has an invalid argument.", "Use what the message suggests, or `help COMMAND`."],
    InvalidBundle: [
      "A bundle is cut off, edited, of a newer version, or not a bundle.",
      "Write it again: `plan --bundle`.",
    ],
    InvalidFlags: ["The flags are invalid.", "Correct each listed problem; `help FLAG` explains one."],
    AuditIncomplete: ["The audit file is not open, or took a record only in part.", "Check the volume's space."],
    InvalidLabelSelector: ["A label selector is malformed.", "Write it as the message shows."],
    LeaderUnreachable: ["The leader's port cannot be read.", "Correct --leader-url, or name a token for /statusz."],
    PatchTestFailed: ["In a plan, a JSON patch tests for another value.", "Make the plan again."],
    PlanFailed: ["The console could not make a plan.", "Correct what the message names, or run the command plan."],
    Problems: ["An input has several problems.", "Correct each listed problem."],
  },
  Sandbox: {
    CommandFailed: ["The running sandbox refused a command.", "Correct what the message names."],
    NotSimulated: ["The cloud's simulator does not offer this command.", "Use another command, or another cloud."],
    SandboxNotRunning: ["No sandbox answers in this folder.", "Start `sandbox`, or name its folder."],
  },
  Plugins: {
    InvalidMetric: ["A metric is invalid.", "Correct its name or labels in the plugin."],
    InvalidPluginLock: ["The plugin lock is missing or malformed.", "Write it with `plugins lock`."],
    LeftOut: ["A plugin was left out; its work ends.", "See the log for why it was left out."],
    MetricClash: ["Two plugins define a metric differently.", "Rename it in one of them."],
    OutsideImport: ["A locked plugin imports a file outside the lock.", "Move the file into the plugin's folder."],
    PackageNotFound: ["A package that a plugin imports is not installed.", "Install it beside the plugin."],
    PluginUnreadable: ["A plugin's folder keeps changing, or its links form a cycle.", "Complete or correct it."],
    PluginsDiffer: ["Plugins differ from the lock.", "Review the change, then write the lock again."],
    PluginsNotLoaded: ["A plugin cannot be imported.", "Correct each listed problem."],
    ThreadFailed: [
      "A worker thread ended or did not answer.",
      "Start the program again. For a serving certificate, give --tls-cert-file and --tls-private-key-file.",
    ],
    WorkTimeout: ["A step of a plugin exceeded its time limit.", "Shorten the step, or raise the limit named."],
  },
  "Generations and reload": {
    CachesStale: [
      "Caches could not be brought up to date after the lock was acquired.",
      "Check the API server's load.",
    ],
    CloudConfigUnreadable: ["The cloud config cannot be read.", "Correct the file, the Secret or its permissions."],
    CloudFailed: ["The cloud plugin could not be created.", "Correct the cloud config as the cause says."],
    InitFailed: ["A controller could not be initialized.", "See the cause; disable the controller with --controllers."],
    RunFailed: ["A controller failed, and no generation could take over.", "See the cause; the lease passes on."],
    Stopping: ["The process or controller is stopping.", nothing],
    Superseded: ["A newer change replaces this work.", nothing],
    SyncFailed: ["Informers did not sync in time.", "Check that the kinds are served, and RBAC."],
  },
  "Kubernetes API": {
    ApiError: ["The API server returned an error; `status` and `reason` are its own.", "See the reason; check RBAC."],
    ApiServerConfig: ["No usable address of the API server.", "Set --kubeconfig, or run in a cluster."],
    ApiServerUnreachable: ["The API server does not answer.", ...byController],
    CAFile: ["A CA file cannot be read or holds no certificate.", "Correct the file that the message names."],
    CredentialPlugin: ["The kubeconfig's credential plugin failed.", "Run its command by hand."],
    Credentials: ["No credentials for the API server.", "Correct what the cause names in the kubeconfig."],
    Fenced: ["A write was refused: the generation has ended or the lease is not safely held.", nothing],
    IdleWatch: ["A watch was silent for too long.", nothing],
    InvalidObject: ["A plugin passed an object that cannot be sent.", "Correct the plugin."],
    LeaseExpired: [
      "This process was paused for longer than its lease lasts, and stopped leading.",
      "Look for a paused or frozen node, or too little CPU.",
    ],
    LeaseLost: ["The lease was lost.", "Nothing: another replica takes over. Often: look at API server latency."],
    LeaseNotRenewed: ["The lease was not renewed within the renew deadline.", "Check the API server and the network."],
    LeaseTimeout: ["The API server did not answer a request for the Lease.", ...fixed],
    Released: ["A watch was requested of a generation that has ended.", nothing],
    Relist: ["Objects are listed again.", nothing],
    RenewDeadlineExceeded: ["The lease could not be renewed in time.", "Check the API server and the network."],
    ServiceAccount: ["No token for a controller's service account.", "Allow serviceaccounts/token, or drop the flag."],
    ShortWatch: ["A watch ended at once.", ...growing],
    Timeout: ["The API server did not reply in time.", ...byController],
    UnexpectedReply: ["A reply is not what the API defines.", "Check for a proxy between host and API server."],
  },
  Serving: {
    BodyTooLarge: ["A request body is too large.", "Send less."],
    ClientGone: ["The client closed the connection.", nothing],
    InvalidCertificate: ["A certificate or key is missing or malformed.", "Replace the file that the message names."],
    InvalidDelegatedAuth: [
      "The cluster's authentication config cannot be read.",
      "Correct the ConfigMap extension-apiserver-authentication.",
    ],
    InvalidToken: ["A request's bearer token is invalid.", "Send a token of this cluster."],
    LeaderNotFound: ["The host that leads cannot be reached.", "Do what the message says."],
    ListenFailed: ["A port cannot be listened on.", "Free the port, or choose another."],
    ProfileFailed: ["A profile is already being taken, or memory is short.", "Try again later."],
    RequestTimeout: ["A client was too slow to send its request.", "Send it again."],
    ReviewTimeout: [
      "The API server did not answer a review in time.",
      "Send the request again; the review is not repeated by itself.",
    ],
    TokenReview: [
      "The API server could not review a token.",
      "Look in its log for the authenticator that failed, such as an OIDC provider that is down, and send the request again.",
    ],
    UntrustedCertificate: ["A client or proxy certificate is not trusted.", "Use one that the client CA has signed."],
  },
  "Controllers and clouds": {
    AddressesNotWritten: [
      "A node was initialized without its addresses.",
      "See the log line before it; they are written again.",
    ],
    CIDRNotWritten: ["A node's pod CIDR could not be written.", ...growing],
    CIDRsExhausted: ["No pod CIDR is free.", "Enlarge --cluster-cidr, or remove nodes."],
    ImplementedElsewhere: ["Another component implements this load balancer.", nothing],
    InstanceMetadata: ["The cloud returned no metadata of a node.", "See the cause."],
    InstanceNotFound: ["A node's VM does not exist.", "Nothing: the node is deleted after a fresh read."],
    Internal: ["A state that cannot occur.", "Report it with the log: it is a defect."],
    InvalidCIDR: ["A text is not a CIDR.", "Write it as in 10.0.0.0/16 or fd00::/48."],
    InvalidClusterCIDR: ["--cluster-cidr is invalid.", "Give one CIDR, or one of each family."],
    InvalidNodeMask: ["A node mask does not fit the cluster CIDR.", "Correct --node-cidr-mask-size or the VM's tag."],
    InvalidAllocatorType: ["--cidr-allocator-type is unknown.", "Use a type that the message lists."],
    InvalidServiceCIDR: ["--service-cluster-ip-range is invalid.", "Give one CIDR, or one of each family."],
    InvalidSourceRanges: ["A Service's source ranges are invalid.", "Correct the field or annotation it names."],
    NoNodeMasks: ["The cloud does not size pod CIDRs.", "Use --cidr-allocator-type=RangeAllocator."],
    NoProviderID: ["The cloud returned no provider ID.", "Correct the cloud plugin."],
    NoResult: ["The cloud returned nothing for a Service.", "Correct the cloud plugin."],
    NodeIPInvalid: ["A node's provided IP is invalid.", "Correct kubelet's --node-ip."],
    NodeIPUnknown: ["The cloud does not know a node's provided IP.", "Correct kubelet's --node-ip, or the VM."],
    NodeReplaced: ["A node was replaced while it was initialized.", nothing],
    RetryAfter: ["Tried again after a fixed delay.", nothing],
    RoutesNotDeleted: ["Some routes could not be deleted.", ...fixed],
    RoutesIncomplete: ["Some routes or conditions could not be written.", ...fixed],
    RoutesNotListed: ["The cloud's routes cannot be listed.", ...fixed],
    ServiceSyncFailed: ["A Service's load balancer could not be reconciled.", "See the cause and the event."],
    TooManyBlocks: ["The cluster CIDR has too many blocks of this size.", "Use a larger node mask size."],
  },
  "Azure: requests": {
    Credential: ["No token from Microsoft Entra ID.", "Correct the credential that the message names."],
    EndlessList: [
      "A list of ARM does not end.",
      "Report it to Azure; the controller tries again.",
      "by its controller",
    ],
    ForeignHost: ["A reply names a host that is not of this cloud.", "Check resourceManagerEndpoint."],
    InvalidReply: ["A reply is malformed.", ...byController],
    InvalidResourceID: ["A text is not a resource ID.", "Correct the ID that the message names."],
    MetadataUnavailable: ["The environment's metadata cannot be read.", "Check resourceManagerEndpoint."],
    NotPlanned: ["A plan cannot carry out a request.", "Use a host in place of `plan`."],
    OperationFailed: [
      "A long-running operation failed without a reason.",
      "Look at the resource that the message names.",
    ],
    NotSettled: ["Azure does not return the written state yet.", ...growing],
    OperationTimeout: ["A long-running operation did not end in time.", ...byController],
    ReplyTooLarge: ["A reply is too large.", "Report it: no list of ours is that long."],
    PreconditionFailed: ["In a plan, a write does not fit the resource as planned so far.", nothing],
    ResourceNotFound: ["The plan has deleted the resource.", nothing],
    UnknownCloud: ["`cloud` names no known environment.", "Use a name that the message lists."],
    UnknownEncoding: ["A reply has an unrequested encoding.", "Check for a proxy."],
    Unreachable: ["Azure does not answer.", ...byController],
  },
  "Azure: VMs and routes": {
    IncompleteVM: ["ARM's description of a VM lacks a field.", "Look at the VM; report it if it is complete."],
    InvalidProviderID: ["A node's provider ID is malformed.", "Correct the node's spec.providerID."],
    OtherSubscription: [
      "A node's VM is in another subscription.",
      "Label it `kubernetes.azure.com/managed=false`, or drop it.",
    ],
    PrivateIPNotFound: ["A node has no private IP of a route's family.", "Give the VM an IP of that family."],
    RouteOutsideClusterCIDR: [
      "A pod CIDR of a node is not within the cluster CIDRs.",
      "Correct --cluster-cidr, or delete the node and find out who registered it with that CIDR.",
    ],
    RouteTableFull: ["The route table has the maximum of routes.", "Use a network plugin without routes."],
    RouteTableNameRequired: ["`routeTableName` is missing.", "Set it, or --configure-cloud-routes=false."],
  },
  "Azure: load balancers": {
    AddressOutsideSubnet: ["A Service's address is outside its subnet.", "Correct the address or the subnet."],
    ContradictoryReads: ["Reads of Azure contradict each other.", ...growing],
    DNSLabelTaken: ["Another Service uses the DNS label.", "Choose another label."],
    FrontendInUse: ["A frontend that other Services use cannot change.", "Move the other Services first."],
    InvalidConfiguration: ["`multipleStandardLoadBalancerConfigurations` is invalid.", "Correct the cloud config."],
    InvalidService: ["A Service's fields or annotations are invalid.", "Correct each listed problem."],
    LimitReached: ["A limit of Azure would be exceeded.", "Remove ports or Services, or request a higher limit."],
    LoadBalancerNotEligible: ["The Service may not use the requested load balancer.", "Correct its annotation."],
    LoadBalancerNotFound: ["The requested load balancer is not configured.", "Name a configured one."],
    LoadBalancersFull: ["Every eligible load balancer is full.", "Configure a further load balancer."],
    MigrationBlocked: ["A Service cannot move to another load balancer yet.", "Remove what the message names."],
    NonPublicAddress: ["`loadBalancerIP` is not a public address.", "Use a public IP's address, or an internal one."],
    PortConflict: ["Two Services use a port of one frontend.", "Change one port, or use separate frontends."],
    PrivateLinkServiceConflict: ["A private link service belongs to another Service.", "Choose another name."],
    PrivateLinkServiceInUse: [
      "A protected private link service has connected private endpoints.",
      "Remove or reject the connections, or set the annotation `azure-pls-delete-protection` to `false`.",
    ],
    PrivateLinkServiceRenamed: ["A private link service cannot be renamed.", "Restore its name, or remove it first."],
    PublicIPInUse: ["A public IP belongs to another resource.", "Choose another public IP."],
    PublicIPNotFound: ["A named public IP does not exist.", "Create it, or correct the annotation."],
    PublicIPUnfit: ["A public IP has the wrong SKU, family or zones.", "Choose another public IP."],
    RemovalHeld: [
      "Too much would be removed without a cause.",
      "Look for what answers wrongly, or confirm the plan with the command in the message.",
    ],
    ResourcesLocked: ["Azure resources are locked by another replica.", ...growing],
    SecurityGroupNotFound: ["The security group does not exist.", "Create it, or correct the cloud config."],
    ServiceGatewayUnsupported: ["Service gateways are not supported.", "Remove `serviceGatewayEnabled`."],
    SubnetNotFound: ["A subnet does not exist.", "Correct the annotation or the cloud config."],
    TooManySecurityRules: ["A security group would exceed its limits.", "Shorten the Services' source ranges."],
    UnmanagedPrivateLinkService: ["A private link service is not ours.", "Remove it, or its frontend."],
    VMSetNotFound: ["No VM set is usable for the Service.", "Correct the annotation, or add nodes."],
    ZonesNotRead: ["The region's zones cannot be read.", ...growing],
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Row>>>>;

type Table = typeof errorTable;

/** A code of the table. Plugins of others may use codes of their own. */
export type ErrorCode = { readonly [Area in keyof Table]: keyof Table[Area] }[keyof Table];

/** Meaning and remedy of each error code, as `help CODE` prints them, and how its work is tried again by itself. */
export const errorCodes: ReadonlyMap<
  string,
  { readonly meaning: string; readonly remedy: string; readonly retry: Retry | undefined }
> = new Map(
  Object.values(errorTable).flatMap((area: Readonly<Record<string, Row>>) =>
    Object.entries(area).map(([code, [meaning, remedy, retry]]) => [code, { meaning, remedy, retry }] as const),
  ),
);
