// Where links of MLflow's clients lead: `#/experiments/ID/runs/RUN` and `#/experiments/ID`. They name no workspace behind the `#`. Who
// opens them below a tracking URI comes here with its workspace as `?workspace=`; else it is looked for among those that the caller may see.

import { Problem, json } from './api.js';
import { card, each } from './common.js';
import { h, name } from './dom.js';
import { link } from './state.js';
import { table } from './table.js';
import { pathOf } from './training.js';

/** What is answered; `null`, where it is not there or nothing for the caller. */
async function found(path, parameters, signal) {
  try {
    return await json(path, parameters, { signal });
  } catch (error) {
    if (error instanceof Problem && [400, 403, 404].includes(error.status)) return null;
    throw error;
  }
}

/** The workspaces of these that have the experiment, with its name there. */
async function having(workspaces, experiment, signal) {
  const all = await each(workspaces, async (workspace) => {
    const answer = await found('/v1/experiments', { of: workspace }, signal);
    const known = answer?.experiments.find((one) => one.id === experiment);
    return known && { workspace, name: known.name };
  });
  return all.filter(Boolean);
}

/** The places that a link may mean, as addresses of pages. */
async function places({ more: [experiment, part, run], signal }, named) {
  if (named && !experiment) return [{ workspace: named, href: link('runs', named) }];
  const isRun = part === 'runs' && run;
  const to = ({ workspace, name: of }) => ({ workspace, href: isRun ? link('run', workspace, { run }) : link('runs', workspace, { experiment: of }) });
  if (named && isRun) return [to({ workspace: named })];
  const workspaces = named ? [named] : (await json('/v1/workspaces', {}, { signal })).workspaces.map((one) => one.path);
  const all = await having(workspaces, experiment, signal);
  if (!isRun || all.length < 2) return all.map(to);
  // Experiments of one name have one id in all workspaces; a run is in one.
  const theirs = await each(all, async (one) => (await found(pathOf(one.workspace, run), {}, signal)) && one);
  return theirs.filter(Boolean).map(to);
}

/** The page: it gives way to the one that is meant, and asks where several may be. */
export async function page(context) {
  const named = new URLSearchParams(location.search).get('workspace');
  const all = await places(context, named);
  if (!all.length) throw new Problem(404, `No workspace that you may see has this ${context.more[1] === 'runs' ? 'run' : 'experiment'}. The link may be of another server.`);
  if (all.length === 1) {
    location.replace(`/${all[0].href}`);
    return [h('h1', null, 'Runs'), h('p', { class: 'loading' }, 'Loading')];
  }
  return [
    h('h1', null, 'Runs'),
    card({
      title: 'Which workspace is meant?',
      note: 'Several have an experiment of this name.',
      side: table({ caption: 'Workspaces with this experiment', rows: all, columns: [{ key: 'workspace', text: 'Workspace', shows: (row) => h('a', { class: 'strong', href: row.href }, name(row.workspace)) }] }),
    }),
  ];
}
