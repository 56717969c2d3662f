import { stringify } from "yaml";

/** A kubeconfig of one cluster and one user, in YAML. */
export function kubeconfigText(access: {
  readonly url: string;
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}): string {
  const { url, ca, user, token } = access;
  const name = "sandbox";
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: url, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
    users: [{ name: user, user: { token } }],
    contexts: [{ name, context: { cluster: name, user } }],
    "current-context": name,
  });
}
