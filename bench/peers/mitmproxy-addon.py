def request(flow):
    flow.request.headers["Authorization"] = "@HEADER@"
