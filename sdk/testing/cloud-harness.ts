import type { Cloud } from "../cloud.ts";
import type { Node, Service } from "../kinds.ts";
import type { ConformanceTest } from "./conformance.ts";

/** A cloud with one running instance, for one test. */
export interface CloudFixture extends AsyncDisposable {
  readonly cloud: Cloud;
  readonly clusterName: string;
  /** A node whose instance exists and runs. */
  readonly node: Node;
  /** A node as a kubelet registers it, whose instance does not exist. */
  readonly ghost: Node;
  /** A Service of type LoadBalancer without a load balancer. Required when the cloud has load balancers. */
  readonly service?: Service;
  /** Number of writes that the cloud has sent to its backend. */
  readonly writes: () => number;
  /** Delays all further replies of the backend by a minute, so that a test can abort a call in flight. */
  readonly delayAnswers: () => void;
}

/** Provides the cloud under test. */
export interface CloudHarness {
  /** Opens a cloud of its own for one test. */
  open(): Promise<CloudFixture>;
}

/** Makes a test that opens a fixture for itself. */
export type CloudTest = (name: string, check: (fixture: CloudFixture) => Promise<void>) => ConformanceTest;
