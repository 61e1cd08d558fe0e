"""The edge to Locust: the only package that imports locust or gevent."""
