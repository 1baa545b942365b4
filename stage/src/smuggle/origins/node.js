// SPDX-License-Identifier: Apache-2.0
// Node's HTTP server on a port, with an application that says what it saw: a line of JSON for each
// request, with a digest of its body, or none when the body did not come whole.
const http = require('http');
const crypto = require('crypto');
const fs = require('fs');

function say(request, body) {
  const { method, url: target } = request;
  fs.writeSync(1, JSON.stringify({ method, target, host: request.headers.host ?? '', body }) + '\n');
}

const server = http.createServer((request, response) => {
  const digest = crypto.createHash('sha256');
  let told = false;
  request.on('data', (part) => digest.update(part));
  request.on('end', () => {
    told = true;
    say(request, digest.digest('hex'));
    const last = request.url.split('?')[0].split('/').pop();
    response.statusCode = last === '204' || last === '304' ? Number(last) : 200;
    response.end(response.statusCode === 200 ? 'ok' : undefined);
  });
  request.on('error', () => {});
  request.on('close', () => told || say(request, null));
});
server.listen(Number(process.argv[2]), '127.0.0.1');
