import { describePlannedSteps } from "./replay/plans.ts";

describePlannedSteps((step) => step !== "created");
