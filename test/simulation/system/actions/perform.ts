import type { Action, ActionKind } from "../history.ts";
import type { World } from "../world.ts";
import { serveElsewhere } from "./elsewhere.ts";
import {
  badConfig,
  endAtWrite,
  killAtWrite,
  killHost,
  pauseAtWrite,
  pauseHost,
  reload,
  retag,
  rotateCredentials,
  stepClock,
  stopHost,
  wrongCredentials,
} from "./hosts.ts";
import { deleteLease, editLease, emptyLease, stealLease } from "./leases.ts";
import {
  breakWatches,
  compact,
  denyWrites,
  failLateOperation,
  failOperations,
  hideInstance,
  holdWatches,
  lagReads,
  loseWatches,
  prolongOperation,
  reachQuota,
  refuseWrites,
  repeatWatches,
  replayWatches,
  requests,
  revokeTokens,
  rewindWatches,
} from "./network.ts";
import {
  excludeNode,
  joinNodes,
  loseNode,
  replaceScaleSet,
  replaceVM,
  retireNode,
  returnNode,
  returnNodeAtWrite,
  stopNode,
} from "./nodes.ts";
import { foreignFrontend, foreignRoute, foreignRule, foreignTag, removeRoute, removeRule } from "./others.ts";
import { changeAtRead } from "./reads.ts";
import { serveSecond } from "./second.ts";
import {
  changeService,
  createService,
  deleteService,
  flipService,
  forceDelete,
  recreateService,
  revertService,
} from "./services.ts";

const performers: Readonly<Record<ActionKind, (world: World, action: Action) => void>> = {
  createService,
  changeService,
  revertService,
  deleteService,
  recreateService,
  flipService,
  forceDelete,
  serveElsewhere,
  serveSecond,
  joinNodes,
  loseNode,
  returnNode,
  returnNodeAtWrite,
  retireNode,
  excludeNode,
  stopNode,
  replaceVM,
  replaceScaleSet,
  reload,
  badConfig,
  killHost,
  killAtWrite,
  stopHost,
  endAtWrite,
  pauseHost,
  pauseAtWrite,
  stepClock,
  wrongCredentials,
  rotateCredentials,
  deleteLease,
  stealLease,
  emptyLease,
  editLease,
  breakWatches,
  holdWatches,
  repeatWatches,
  rewindWatches,
  replayWatches,
  loseWatches,
  compact,
  requests,
  failOperations,
  prolongOperation,
  lagReads,
  changeAtRead,
  hideInstance,
  retag,
  revokeTokens,
  refuseWrites,
  denyWrites,
  failLateOperation,
  reachQuota,
  foreignRule,
  foreignTag,
  foreignRoute,
  foreignFrontend,
  removeRoute,
  removeRule,
};

/** False when nothing was there for it to happen to. */
export function perform(world: World, action: Action): boolean {
  const before = world.trace.lines.length;
  performers[action.kind](world, action);
  return world.trace.lines.length > before;
}
