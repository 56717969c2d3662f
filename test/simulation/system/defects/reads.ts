import type { Defects } from "./defect.ts";

const informers = "host/kube/informers";
const armReads = "plugins/azure-cloud/arm/reads";

/** Of watches, lists, queues, and of what was read from Azure. */
export const readDefects: Defects = {
  "ignores deletions in watches": {
    file: `${informers}/reflector.ts`,
    from: 'case "DELETED":',
    to: 'case "GONE":',
    needs: ["loseNode"],
    kept: "a VM goes",
  },
  "ignores deletions that happened between two lists": {
    file: `${informers}/store.ts`,
    from: 'for (const object of gone.values()) changes.push({ type: "deleted", object });',
    to: "",
    needs: ["compact", "breakWatches", "deleteService"],
    kept: "Services vanish between two lists",
  },
  "does not list again when the API server has forgotten its version": {
    file: `${informers}/reflector.ts`,
    from: "is too old; listing again`);\n      this.#version = undefined;",
    to: "is too old; listing again`);",
    needs: ["compact", "breakWatches"],
    kept: "the API server forgets its history",
  },
  "watches from the version of the last list": {
    file: `${informers}/reflector.ts`,
    from: "this.#version = object.metadata?.resourceVersion || this.#version;",
    to: "",
    needs: ["breakWatches", "deleteService"],
  },
  "applies events of a watch that are older than what it has": {
    file: `${informers}/reflector.ts`,
    from: 'if (isOlder(object.metadata?.resourceVersion, known)) return "past";',
    to: "",
    needs: ["rewindWatches"],
  },
  "waits for a watch that its server has lost": {
    file: `${informers}/reflector.ts`,
    from: "if (silence >= idleLimitMs)",
    to: "if (silence === Number.POSITIVE_INFINITY)",
    needs: ["holdWatches", "requests"],
  },
  "lists and watches again without a pause": {
    file: `${informers}/reflector.ts`,
    from: "await this.#options.clock.sleep(this.#backoff.next(), pause.signal);",
    to: "await this.#options.clock.sleep(1, pause.signal);",
    needs: ["requests"],
    kept: "the API server is down",
  },
  "takes any reply for a list": {
    file: "host/kube/connection/list.ts",
    from: "const { items, metadata } = listOf(kind, await documentOf(response));",
    to: "const document = await documentOf(response); const { items = [], metadata = {} } = document;",
    needs: ["breakWatches", "requests"],
  },
  "loses a key that is added while it is processed": {
    file: "host/kube/queue/work-queue.ts",
    from: "    this.#metrics.done(key);\n    if (this.#dirty.has(key)) this.#offer(key);",
    to: "    this.#metrics.done(key);",
    needs: ["changeService", "requests"],
    kept: "a Service is deleted while it is processed",
  },
  "does not retry what has failed": {
    file: "host/kube/queue/work-queue.ts",
    from: "if (delayMs === undefined) this.addRateLimited(key);\n      else this.addAfter(key, delayMs);",
    to: "if (delayMs !== undefined) this.addAfter(key, delayMs);",
    needs: ["failOperations", "changeService"],
    kept: "two writes of the load balancer fail as operations",
  },
  "retries without a pause": {
    file: "host/kube/queue/work-queue.ts",
    from: "this.addAfter(key, this.#limiter.next(key));",
    to: "this.addAfter(key, 1);",
    needs: ["refuseWrites"],
  },
  "keeps the later one of two delays": {
    file: "host/kube/queue/delayed-adds.ts",
    from: "if (waiting !== undefined && waiting.readyAt <= readyAt) return;",
    to: "if (waiting !== undefined && waiting.readyAt > readyAt) return;",
    needs: ["changeService", "requests"],
  },
  "believes a read that is behind its own write": {
    file: `${armReads}/resource-cache.ts`,
    from: 'return read === undefined || (this.#written.get(key)?.former.has(read.etag ?? "") ?? false);',
    to: "return false;",
    needs: ["lagReads", "changeService"],
  },
  "believes a list that began before a write": {
    file: `${armReads}/resource-cache.ts`,
    from: "if (number <= since) this.#changes.delete(key);",
    to: "if (number <= since || true) this.#changes.delete(key);",
    needs: ["changeAtRead", "revertService"],
  },
  "joins a read that was outdated meanwhile": {
    file: `${armReads}/shared-read.ts`,
    from: "return this.#runningRevision === this.#revision ? this.#running : undefined;",
    to: "return this.#running;",
    needs: ["changeAtRead", "revertService"],
  },
  "keeps the result of a read that was outdated meanwhile": {
    file: `${armReads}/shared-read.ts`,
    from: "if (revision === this.#revision) this.#held = held;",
    to: "this.#held = held;",
    needs: ["changeAtRead", "revertService"],
  },
  "keeps a token that was revoked": {
    file: "plugins/azure-cloud/arm/pipeline/pipeline.ts",
    from: "if (response.status !== 401) return response;",
    to: "if (response.status > 0) return response;",
    needs: ["revokeTokens"],
    kept: "tokens are revoked",
  },
  "waits for a reply of Azure without a limit": {
    file: "plugins/azure-cloud/arm/transport/fetch-client.ts",
    from: "abort.abort(new TransportError(`no answer within",
    to: "void (new TransportError(`no answer within",
    needs: ["requests"],
    kept: "Azure does not reply",
  },
  "writes without a precondition": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: 'etag === undefined ? { "If-None-Match": "*" } : { "If-Match": etag };',
    to: "etag === undefined ? {} : {};",
    needs: ["foreignFrontend", "changeService"],
    kept: "others add a frontend while the load balancer is read",
  },
  "takes what a read shows after a write for its result": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: "return await this.#newerThan(body, item, id, options.abortSignal);",
    to: "return item;",
    needs: ["lagReads", "changeService"],
    kept: "a change is taken back while reads are behind",
  },
  "takes the former load balancer of a Service for all that it has": {
    file: "plugins/azure-cloud/load-balancer/reconcile/contradictions.ts",
    from: "isOn(write, base) ? write.id : anywhere",
    to: "anywhere",
    needs: ["lagReads", "changeService", "deleteService"],
    kept: "a Service that has moved is deleted while reads are behind",
  },
  "creates without a read": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: "if (body.etag === undefined && !isNew && (await this.#ahead.take(id)) !== undefined)",
    to: "if (body.etag === null)",
    needs: ["killAtWrite", "createService"],
  },
  "believes its cache after a failed write": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: "      this.invalidate(id);\n      throw error;",
    to: "      throw error;",
    needs: ["failOperations", "revertService"],
    kept: "a write fails, and its change is taken back",
  },
};
