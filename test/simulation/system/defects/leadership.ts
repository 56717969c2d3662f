import type { Defects } from "./defect.ts";

const election = "host/process/leader-election";

/** Of the Lease, of generations that follow each other, and of the fence between them. */
export const leadershipDefects: Defects = {
  "writes without holding the lease": {
    file: "host/generation/scope/fence.ts",
    from: 'return this.#safelyHeld() ? undefined : "the leader election lease is not safely held";',
    to: "return undefined;",
    needs: ["pauseAtWrite"],
    hosts: 2,
    kept: "a host is paused at a write",
  },
  "takes a lease that is held": {
    file: `${election}/lock.ts`,
    from: "if (this.heldByAnother || mayBeTaken) {",
    to: "if (mayBeTaken) {",
    hosts: 2,
    kept: "two hosts start",
  },
  "takes a lease again that another candidate has led under meanwhile": {
    file: `${election}/lock.ts`,
    from: "signals.renewal === true ? this.#mayHaveBeenLed(record) : this.#mayBeLed();",
    to: "signals.renewal === true ? false : this.#mayBeLed();",
    needs: ["pauseAtWrite", "stopHost"],
    hosts: 2,
  },
  "creates a lease that was deleted while its holder leads": {
    file: `${election}/lock.ts`,
    from: "if (lease === undefined && !this.#mayCreate()) {",
    to: "if (lease === null) {",
    needs: ["deleteLease"],
    hosts: 2,
  },
  "takes a lease that was emptied by hand while its holder leads": {
    file: `${election}/lock.ts`,
    from: "return wasEmptied && this.#monotonic() - atMs <= Math.max(this.#options.leaseDurationMs, holderSeconds * 1000);",
    to: "return false;",
    needs: ["emptyLease"],
    hosts: 2,
  },
  "never takes a lease that has expired": {
    file: `${election}/lock.ts`,
    from: "return atMs + record.leaseDurationSeconds * 1000 > this.#monotonic();",
    to: "return atMs + record.leaseDurationSeconds > 0;",
    needs: ["killHost"],
    kept: "nodes come after the process was killed",
  },
  "holds a lease for twice as long as it is valid": {
    file: `${election}/elector.ts`,
    from: "this.#lock.renewalAgeMs < this.#options.renewDeadlineMs",
    to: "this.#lock.renewalAgeMs < 2 * this.#options.leaseDurationMs",
    needs: ["requests"],
    hosts: 2,
  },
  "takes the reply for the time of a renewal": {
    file: `${election}/lock.ts`,
    from: "this.#renewedMs = this.held ? sentMs : undefined;",
    to: "this.#renewedMs = this.held ? this.#monotonic() : undefined;",
    needs: ["requests"],
    hosts: 2,
  },
  "releases the lease although work is outstanding": {
    file: `${election}/elector.ts`,
    from: 'if ((await work) === "outstanding") return "kept";',
    to: "",
    needs: ["stopHost", "requests"],
    hosts: 2,
  },
  "leads on when the lease is lost": {
    file: `${election}/elector.ts`,
    from: "if (!isHeld) {",
    to: "if (isHeld === null) {",
    needs: ["stealLease"],
    kept: "a Lease is stolen",
  },
  "starts controllers with caches that are older than the lease": {
    file: "host/generation/scope/caches.ts",
    from: "const since = locks.heldSince(lock);",
    to: "const since = Number.NEGATIVE_INFINITY;",
    needs: ["holdWatches", "killHost"],
    hosts: 2,
  },
  "waits for a pause after failures before it reads again for a new lease": {
    file: "host/kube/informers/reflector.ts",
    from: 'this.#step?.abort(new CodedError(relist, "everything is listed again"));',
    to: "",
    needs: ["killHost", "requests"],
  },
  "starts the next generation while the former one works": {
    file: "host/generation/slot/slot.ts",
    from: "const overdue = await generation.drain(timeoutMs);",
    to: "const overdue: readonly string[] = []; void generation.drain(timeoutMs);",
    needs: ["retag", "requests"],
  },
  "leaves the fence of a former generation open": {
    file: "host/generation/scope/fences.ts",
    from: "    this.cloud.close();\n    for (const fence of this.#fences.values()) fence.close();",
    to: "",
    needs: ["retag", "requests"],
  },
  "closes informers that the next generation uses": {
    file: "host/kube/informers/pool.ts",
    from: "if (entry.shares > 0) return;",
    to: "",
    needs: ["reload", "createService"],
    kept: "a Service is created after a reload",
  },
  "does not apply a changed config": {
    file: "host/generation/triggers/content-trigger.ts",
    from: "      options.changed(content);",
    to: "",
    needs: ["rotateCredentials"],
    kept: "credentials are rotated",
  },
};
