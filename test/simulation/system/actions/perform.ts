import type { Action, ActionKind } from "../history.ts";
import type { World } from "../world.ts";
import {
  badConfig,
  deleteLease,
  killAtWrite,
  killHost,
  pauseAtWrite,
  pauseHost,
  reload,
  retag,
  stopHost,
} from "./hosts.ts";
import {
  breakWatches,
  compact,
  failOperations,
  hideInstance,
  holdWatches,
  lagReads,
  requests,
  revokeTokens,
} from "./network.ts";
import { joinNodes, loseNode, returnNode, stopNode } from "./nodes.ts";
import { foreignFrontend, foreignRoute, foreignRule, foreignTag } from "./others.ts";
import { changeService, createService, deleteService, flipService, recreateService } from "./services.ts";

const performers: Readonly<Record<ActionKind, (world: World, action: Action) => void>> = {
  createService,
  changeService,
  deleteService,
  recreateService,
  flipService,
  joinNodes,
  loseNode,
  returnNode,
  stopNode,
  reload,
  badConfig,
  killHost,
  killAtWrite,
  stopHost,
  pauseHost,
  pauseAtWrite,
  deleteLease,
  breakWatches,
  holdWatches,
  compact,
  requests,
  failOperations,
  lagReads,
  hideInstance,
  retag,
  revokeTokens,
  foreignRule,
  foreignTag,
  foreignRoute,
  foreignFrontend,
};

export const perform = (world: World, action: Action): void => performers[action.kind](world, action);
