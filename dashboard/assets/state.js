// The address of a page: which page, of which workspace, with what is chosen. All of it stands behind the `#`, so every page
// can be shared, and no server sees or logs it.

/** The parts of an address such as `#/w/flights/nyc/metrics?metric=auc`. */
export function read(hash = location.hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  let parts = [];
  try {
    parts = path.split('/').filter((part) => part).map(decodeURIComponent);
  } catch {
    // An address that was cut is that of no page.
  }
  const chosen = new URLSearchParams(query);
  if (parts[0] === 'w' && parts.length >= 3) {
    return { page: parts[3] ?? 'metrics', workspace: `${parts[1]}/${parts[2]}`, chosen };
  }
  // Below a tracking URI of MLflow the address says of which workspace, and nothing behind the `#`.
  const start = new URLSearchParams(location.search).has('workspace') ? 'experiments' : 'workspaces';
  return { page: parts[0] ?? start, workspace: null, chosen, more: parts.slice(1) };
}

/** The address of a page. */
export function link(page, workspace, chosen = {}) {
  const place = workspace === null ? page : `w/${workspace.split('/').map(encodeURIComponent).join('/')}/${page}`;
  const given = Object.entries(chosen).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const query = new URLSearchParams(given).toString();
  return `#/${place}${query && `?${query}`}`;
}

/** The same page with other choices. */
export function change(now, choices) {
  return link(now.page, now.workspace, { ...Object.fromEntries(now.chosen), ...choices });
}
